package podspec

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/binpack"
)

const (
	// EgressDimension of a trace is the traffic of items and the limit of machines, in bits a second.
	EgressDimension = "egress"
	// EgressAnnotation of a pod is its traffic, of a node the rate of its uplink, in bits a second.
	EgressAnnotation = "sigma-scheduler.io/egress"
	// EgressResource is the extended resource of the same, in units of [EgressUnit]: of a pod its
	// request, of a node the limit of its pods together.
	EgressResource = "sigma-scheduler.io/egress-mbps"
	// EgressUnit is one Mbit/s.
	EgressUnit = 1_000_000
)

// Egress reads the text of an [EgressAnnotation], in bits a second.
func Egress(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err == nil && (q.Sign() < 0 || Value(&q) > binpack.MaxValue) {
		err = errors.New("want 0 to 2^50 bits a second, such as 200M")
	}
	if err != nil {
		return 0, fmt.Errorf("%q: %w", text, err)
	}
	return q.Value(), nil
}
