package updater

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// have are the requests and limits of all pods.
func (w *world) have() (list []string) {
	w.t.Helper()
	for _, p := range w.pods() {
		r := p.Spec.Containers[0].Resources
		list = append(list, fmt.Sprint(r.Requests.Cpu(), " ", r.Requests.Memory(), " of ", r.Limits.Cpu(), " ", r.Limits.Memory()))
	}
	return list
}

// Sizes by use leave limits as they are, and the way back restores those that another algorithm changed, with an
// updater that is killed before or after any call.
func TestLimitsByUse(t *testing.T) {
	for round := range 20 {
		r := rand.New(rand.NewPCG(uint64(round), 1))
		w := newWorld(t, v1alpha1.ModeInPlace)
		carry := func(id int64, algorithm, cpu string, want string) {
			w.algorithm(algorithm)
			w.recommend(id, 2, cpu)
			kills := r.IntN(6)
			w.around = func(_ string, next func() error) error {
				kills--
				if kills >= 0 && r.IntN(2) == 0 {
					return errors.New("killed before the call")
				}
				err := next()
				if kills >= 0 && err == nil {
					err = errors.New("killed after the call")
				}
				return err
			}
			for range 8 {
				if w.reconcile() != nil {
					w.restart()
				}
				w.kubelet("")
				w.clock.Step(cacheLag / 2)
			}
			require.Equal(t, []string{want, want}, w.have(), "round %d, recommendation %d", round, id)
			require.Equal(t, v1alpha1.OutcomeApplied, w.actuation().Outcome, "round %d, recommendation %d", round, id)
			w.clock.Step(time.Minute)
		}
		carry(1, "usage", "100m", "100m 512Mi of 1 512Mi")
		carry(2, "usage", "800m", "800m 512Mi of 1 512Mi")
		carry(3, "vpa", "400m", "400m 512Mi of 800m 512Mi") // as the template has twice the request
		carry(4, "template", "500m", "500m 512Mi of 1 512Mi")
	}
}

// A pod whose class would change keeps its size, and the object has the reason.
func TestGuaranteedByUse(t *testing.T) {
	w := newWorld(t, v1alpha1.ModeInPlace)
	for _, p := range w.pods() {
		p.Spec.Containers[0].Resources.Limits = amounts("500m", "512Mi")
		require.NoError(t, w.api.Update(t.Context(), &p))
	}
	w.kubelet("")
	d := deployment(2)
	d.Spec.Template.Spec.Containers = []corev1.Container{w.pods()[0].Spec.Containers[0]}
	require.NoError(t, w.api.Update(t.Context(), d))
	w.algorithm("usage")
	w.recommend(1, 2, "100m")
	w.settle()
	require.Equal(t, []string{"500m 512Mi of 500m 512Mi", "500m 512Mi of 500m 512Mi"}, w.have())
	require.Equal(t, v1alpha1.OutcomeRefused, w.actuation().Outcome, w.actuation().Message)
	require.Contains(t, w.actuation().Message, "its QoS class would change")
}
