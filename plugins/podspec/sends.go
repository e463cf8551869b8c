package podspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/binpack"
)

// SendsAnnotation of a pod is its traffic to the pods of groups, in bits a second:
// shop/StatefulSet/db=150M:paired,shop/Deployment/cache=20M. Paired: to one pod that no second
// one sends to; else to all, evenly.
const SendsAnnotation = "sigma-scheduler.io/sends"

// mostSends bounds the groups that a pod may name: each is part of its app, and of every line of the decision log about that.
const mostSends = 64

// Sends returns the entries of a pod's annotation, sorted, each group once. An error is of the first
// invalid part; the others count.
func Sends(pod *v1.Pod) (list []binpack.Sending, err error) {
	text := pod.Annotations[SendsAnnotation]
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		if len(list) == mostSends {
			err = cmp.Or(err, fmt.Errorf("more than %d groups: those after %q do not count", mostSends, list[mostSends-1].Group))
			break
		}
		s, wrong := binpack.ParseSending(strings.TrimSpace(part), quantity)
		switch {
		case wrong != nil:
		case !strings.Contains(s.Group, "/"):
			wrong = fmt.Errorf("%q: want NAMESPACE/KIND/NAME=BITS", part)
		case slices.ContainsFunc(list, func(o binpack.Sending) bool { return o.Group == s.Group }):
			wrong = fmt.Errorf("%q: the group is named twice", part)
		default:
			list = append(list, s)
		}
		if wrong != nil && err == nil {
			err = wrong
		}
	}
	slices.SortFunc(list, func(a, b binpack.Sending) int { return strings.Compare(a.Group, b.Group) })
	return list, err
}

func quantity(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	return Value(&q), err
}
