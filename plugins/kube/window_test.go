package kube_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

const morning = "2026-05-04T08:00:00Z/2026-05-04T10:30:00+02:00"

// planned is a Deployment of 4 replicas with annotations.
func planned(name string, annotations ...string) *appsv1.Deployment {
	d := deployment(name, new(int32(4)))
	d.Annotations = map[string]string{}
	for pair := range slices.Chunk(annotations, 2) {
		d.Annotations[pair[0]] = pair[1]
	}
	return d
}

func texts(faults []kube.Fault) []string {
	var list []string
	for i := range faults {
		list = append(list, faults[i].String())
	}
	return list
}

// Windows are events: when they are new, when they change, and when they are gone.
func TestWindows(t *testing.T) {
	w := newWorld(t)
	from := float64(time.Date(2026, 5, 4, 8, 0, 0, 0, time.UTC).Unix())
	d := &kube.Declarations{
		Deployments: []*appsv1.Deployment{planned("web", kube.WindowAnnotation, morning), planned("other")},
		Jobs:        []*batchv1.Job{{ObjectMeta: planned("load", kube.WindowAnnotation, morning).ObjectMeta, Spec: batchv1.JobSpec{Template: template("1")}}},
	}
	declare := func() []*ledger.Event {
		w.emitted()
		require.Empty(t, w.Forecast(d, time.Second))
		return slices.DeleteFunc(slices.Clone(w.events), func(e *ledger.Event) bool { return e.Kind != ledger.KindWindow })
	}
	half := &ledger.Window{Start: from, End: from + 1800}
	got := declare()
	require.Len(t, got, 1)
	require.Equal(t, map[string]*ledger.Window{"default/Deployment/web": half, "default/Job/load": half}, got[0].Windows)
	require.Empty(t, declare(), "the same again")

	d.Deployments[0] = planned("web", kube.WindowAnnotation, "2026-05-04T08:00:00Z/2026-05-04T09:00:00Z")
	d.Jobs = nil
	got = declare()
	require.Len(t, got, 1)
	require.Equal(t, map[string]*ledger.Window{"default/Deployment/web": {Start: from, End: from + 3600}, "default/Job/load": nil}, got[0].Windows)
}

// An annotation that says nothing usable is ignored, and named.
func TestWindowFaults(t *testing.T) {
	const window, expected = kube.WindowAnnotation, kube.ExpectedAnnotation
	for _, tt := range []struct{ annotation, text, why string }{
		{window, "", "want START/END, each a time like 2026-05-04T08:00:00Z"},
		{window, "tomorrow/2026-05-04T08:00:00Z", "want START/END"},
		{window, "2026-05-04T08:00:00Z", "want START/END"},
		{window, "2026-05-04T08:00:00Z/soon", "want START/END"},
		{window, "2026-05-04T08:00:00Z/2026-05-04T08:00:00Z", "it does not end after its start"},
		{window, "2026-05-04T08:00:00Z/2026-05-03T08:00:00Z", "it does not end after its start"},
		{window, "2026-05-04T08:00:00Z/2026-06-03T08:00:01Z", "it is longer than 30 days"},
		{expected, "0", "want a whole number from 1 to 2147483647"},
		{expected, "-3", "want a whole number"},
		{expected, "4.5", "want a whole number"},
		{expected, "4294967296", "want a whole number"},
	} {
		t.Run(tt.annotation+" "+tt.text, func(t *testing.T) {
			w := newWorld(t)
			faults := w.Forecast(&kube.Declarations{Deployments: []*appsv1.Deployment{planned("web", tt.annotation, tt.text)}}, 0)
			require.Len(t, faults, 1)
			require.Contains(t, faults[0].String(), "default/Deployment/web: the annotation "+tt.annotation+` "`+tt.text+`" is ignored: `+tt.why)
			require.Equal(t, "apps/v1", faults[0].Workload.APIVersion)
			require.Equal(t, map[string]float64{"default/Deployment/web@cpu=1": 4}, w.expected())
			require.Empty(t, w.ledger.Windows())
		})
	}
}

// Workloads of one app share its window; where they have different ones there is none.
func TestWindowsOfOneApp(t *testing.T) {
	labelled := func(name string, annotations ...string) *appsv1.Deployment {
		d := planned(name, annotations...)
		d.Spec.Template.Labels = map[string]string{"app": "web"}
		return d
	}
	blue, green, grey := labelled("blue", kube.WindowAnnotation, morning), labelled("green", kube.WindowAnnotation, morning), labelled("grey")
	w := newWorld(t)
	w.Translator = kube.NewTranslator("app", w.ledger, w.book)
	require.Empty(t, w.Forecast(&kube.Declarations{Deployments: []*appsv1.Deployment{blue, green, grey}}, 0))
	require.Len(t, w.ledger.Windows(), 1)
	require.Contains(t, w.ledger.Windows(), "default/web")

	green.Annotations[kube.WindowAnnotation] = "2026-05-04T08:00:00Z/2026-05-04T09:00:00Z"
	for _, list := range [][]*appsv1.Deployment{{blue, green, grey}, {grey, green, blue}} {
		require.Equal(t, []string{
			"default/Deployment/blue: the annotation sigma-scheduler.io/window is ignored: another workload of the app default/web has another window",
			"default/Deployment/green: the annotation sigma-scheduler.io/window is ignored: another workload of the app default/web has another window",
		}, texts(w.Forecast(&kube.Declarations{Deployments: list}, 0)))
		require.Empty(t, w.ledger.Windows())
	}
}

// The annotation overrides replicas and autoscalers.
func TestExpectedIsDeclared(t *testing.T) {
	w := newWorld(t)
	d := &kube.Declarations{
		Deployments: []*appsv1.Deployment{planned("web", kube.ExpectedAnnotation, "40"), planned("other")},
		Autoscalers: []*autoscalingv2.HorizontalPodAutoscaler{{ObjectMeta: meta("any"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, MaxReplicas: 10,
		}}},
	}
	require.Empty(t, w.Forecast(d, 0))
	require.Equal(t, map[string]float64{"default/Deployment/web@cpu=1": 40, "default/Deployment/other@cpu=1": 4}, w.expected())
}
