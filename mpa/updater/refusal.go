package updater

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/actuate"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/quotas"
)

const (
	// holdRefused is the time for which a refused size, or a larger one, is not requested again.
	holdRefused = 30 * time.Minute
	// lookAtQuotas is the interval at which the quotas are read meanwhile: more room ends the hold.
	lookAtQuotas = time.Minute
)

// An attempt to resize a pod.
type attempt struct {
	id         int64 // of the sizes
	time       time.Time
	refused    string                   // by the API server
	infeasible bool                     // refused, because its node is too small
	want       map[string]mpa.Resources // the refused requests
}

// holds reports whether the API server refused such a size a short while ago: each amount of
// it is as large or larger.
func (a *attempt) holds(want map[string]mpa.Resources, now time.Time) bool {
	if a.refused == "" || !now.Before(a.time.Add(holdRefused)) {
		return false
	}
	for name, r := range a.want {
		if w := want[name]; w.CPU < r.CPU || w.Memory < r.Memory {
			return false
		}
	}
	return true
}

// quotas reports whether the refusal may be a quota's.
func (a *attempt) quotas() bool { return a.refused != "" && !a.infeasible }

// A room is the remainder of each amount of each quota of a namespace.
type room map[string]resource.Quantity

// roomOf reads the quotas that count some of the pods. If they cannot be read it is nil, and
// only time ends a hold.
func (u *updater) roomOf(ctx context.Context, namespace string, pods []corev1.Pod) room {
	var list corev1.ResourceQuotaList
	if err := u.direct.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil
	}
	left := room{}
	for _, q := range list.Items {
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return quotas.Selects(&q, &p) }) {
			continue
		}
		for name, hard := range q.Status.Hard {
			if strings.HasSuffix(string(name), "cpu") || strings.HasSuffix(string(name), "memory") {
				hard.Sub(q.Status.Used[name])
				left[q.Name+"/"+string(name)] = hard
			}
		}
	}
	return left
}

// letGo forgets refusals once a quota has more room than at the last of them, or is deleted.
func (u *updater) letGo(ctx context.Context, namespace string, o *object, pods []corev1.Pod, now time.Time) {
	held := false
	for _, a := range o.asked {
		held = held || a.quotas()
	}
	if !held || len(o.room) == 0 || now.Before(o.looked.Add(lookAtQuotas)) {
		return
	}
	o.looked = now
	left := u.roomOf(ctx, namespace, pods)
	for name, before := range o.room {
		if is, ok := left[name]; left != nil && (!ok || is.Cmp(before) > 0) {
			maps.DeleteFunc(o.asked, func(_ types.UID, a attempt) bool { return a.quotas() })
			return
		}
	}
}

// grows reports whether sizes reduce no resource of those that were carried out last.
func grows(m *v1alpha1.MultidimPodAutoscaler, last *v1alpha1.Sizes, want map[string]mpa.Resources) bool {
	if last == nil {
		return false
	}
	before, err := actuate.Wanted(last.Containers, actuate.Constraints(m))
	for name, r := range want {
		if err != nil || before[name].Max(r) != r {
			return false
		}
	}
	return true
}
