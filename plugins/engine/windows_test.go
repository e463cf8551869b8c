package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// plan declares a Deployment of web with annotations.
func (l *lab) plan(annotations map[string]string) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: annotations}}
	d.Spec.Replicas, d.Spec.Template.Labels, d.Spec.Template.Spec = new(int32(3)), map[string]string{"app": "web"}, pod("x", "web").Spec
	l.SetDeclared(&kube.Declarations{Deployments: []*appsv1.Deployment{d}})
}

// window is an hour from now on.
func (l *lab) window() map[string]string {
	return map[string]string{kube.WindowAnnotation: l.now.UTC().Format(time.RFC3339) + "/" + l.now.Add(time.Hour).UTC().Format(time.RFC3339)}
}

// In a window of its workload the policy decides by the clock, and outside of it the shipped
// one does. Both are in metrics and log, and are computed again from each of its files.
func TestWindow(t *testing.T) {
	for _, know := range []binpack.Knowledge{binpack.K1Clock, binpack.K0Clock} {
		t.Run(know.String(), func(t *testing.T) {
			l := two(t, func(o *Options) { o.Fleet, o.DecisionLogBytes, o.ForecastAge = "open", 1<<10, 0 })
			object := shipped(t, "general-k1-clock", func(s *policy.Spec) { s.Knowledge = know.String() })
			outside := ledger.ClocklessPolicy(object, binpack.Open)
			l.SetPolicy(ledger.Primary, object)
			l.plan(nil)
			i := 0
			place := func(app, cause, digest string) {
				t.Helper()
				i++
				d := l.place(pod(fmt.Sprint("p", i), app)).decision
				require.Equal(t, []string{cause, digest, "live"}, []string{d.Cause, d.PolicyDigest, d.Mode})
				require.InDelta(t, seconds(l.now), d.Clock, 0)
			}
			inside := func(app string) { t.Helper(); place(app, ledger.CausePolicy, object.Digest()) }
			without := func(app string) { t.Helper(); place(app, ledger.CauseNoWindow, outside.Digest()) }
			without("web")
			l.plan(l.window())
			inside("web")
			without("other")
			l.now = l.now.Add(30 * time.Minute)
			l.plan(l.window()) // it is put off
			inside("web")
			l.now = l.now.Add(time.Hour)
			inside("web")

			// The state is built again, as after a bug.
			l.state.broken = errors.New("a test")
			l.now = l.now.Add(-time.Minute)
			l.sync()
			inside("web")
			l.now = l.now.Add(time.Minute + time.Second)
			without("web")
			require.Equal(t, 3, l.counter(l.metrics.decisions.WithLabelValues("live", "no-window")))
			require.Equal(t, 4, l.counter(l.metrics.decisions.WithLabelValues("live", "policy")))

			v := l.verifyFiles(l.files()...)
			require.Equal(t, 7, v.Agreed)
			require.Greater(t, len(l.files()), 2)
			for _, path := range l.files() {
				l.verifyFiles(path)
			}
		})
	}
}

// A window that is ignored is told once: by an event on the workload, and by the metric.
func TestWindowIsIgnored(t *testing.T) {
	l := two(t)
	l.SetPolicy(ledger.Primary, shipped(t, "general-k1-clock"))
	const event = `Warning AnnotationIgnored the annotation sigma-scheduler.io/window "soon" is ignored: want START/END, each a time like 2026-05-04T08:00:00Z`
	bad := map[string]string{kube.WindowAnnotation: "soon"}
	for range 2 {
		l.plan(bad)
		l.place(pod(fmt.Sprint(l.now.Unix()), "web"))
		l.now = l.now.Add(time.Second)
	}
	require.Equal(t, []string{event}, l.told())
	require.Equal(t, 1, l.counter(l.metrics.loadErrors.WithLabelValues("workloads")))
	require.Equal(t, map[string]int{ledger.CauseNoWindow: 2}, l.verify().Causes)

	l.plan(l.window())
	l.sync()
	l.plan(bad)
	l.sync()
	require.Equal(t, []string{event}, l.told(), "it was mended in between")
}
