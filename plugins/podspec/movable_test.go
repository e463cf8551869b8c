package podspec

import (
	"math"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMovable(t *testing.T) {
	volume := func(v v1.VolumeSource) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v}} }
	}
	note := func(key, value string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	both := func(list ...func(*v1.Pod)) func(*v1.Pod) {
		return func(p *v1.Pod) {
			for _, f := range list {
				f(p)
			}
		}
	}
	anti := func(key string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: key}}}}
		}
	}
	grace := func(seconds int64) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	owned := func(kind string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "x", Controller: new(true)}}
		}
	}
	for _, c := range []struct {
		name string
		edit func(*v1.Pod)
		want string // part of the reason; "" = it may move
	}{
		{"plain", func(*v1.Pod) {}, ""},
		{"bare", func(p *v1.Pod) { p.OwnerReferences = nil }, "no controller"},
		{"bare, with local data", func(p *v1.Pod) {
			p.OwnerReferences = nil
			volume(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}})(p)
		}, "no controller that would replace it, and it has local storage"},
		{"owned, not controlled", func(p *v1.Pod) { p.OwnerReferences[0].Controller = nil }, "no controller"},
		{"DaemonSet", owned("DaemonSet"), "part of its node"},
		{"static", owned("Node"), "part of its node"},
		{"mirror", note(v1.MirrorPodAnnotationKey, "x"), "part of its node"},
		{"ended", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, "ended"},
		{"deleted", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, "deleted"},
		{"not ready", func(p *v1.Pod) { p.Status.Conditions[0].Status = v1.ConditionFalse }, "not ready"},
		{"ready unknown", func(p *v1.Pod) { p.Status.Conditions = nil }, "not ready"},
		{"Job", func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyOnFailure }, "begin again"},
		{"do-not-disrupt", note("karpenter.sh/do-not-disrupt", "true"), "do-not-disrupt"},
		{"do-not-disrupt false", note("karpenter.sh/do-not-disrupt", "false"), ""},
		{"not safe to evict", note("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"), "safe-to-evict"},
		{"emptyDir", volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), "local storage"},
		{"emptyDir in memory", volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}), ""},
		{"hostPath", volume(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}), "local storage"},
		{"hostPath, safe", both(volume(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}), note("cluster-autoscaler.kubernetes.io/safe-to-evict", "true")), ""},
		{"emptyDir to lose", both(volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), note("cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "tmp,data")), ""},
		{"emptyDir, another to lose", both(volume(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), note("cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "tmp")), "local storage"},
		{"config map", volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}), ""},
		{"claim", volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}), "volumes"},
		{"ephemeral volume", volume(v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}), "volumes"},
		{"resource claim", func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} }, "resource claims"},
		{"served", func(p *v1.Pod) { p.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{} }, "driver"},
		{"host port", func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} }, "host ports"},
		{"port", func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80}} }, ""},
		{"hard spread", func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.DoNotSchedule}}
		}, "topology spread"},
		{"soft spread", func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.ScheduleAnyway}}
		}, ""},
		{"affinity", func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{}}}}
		}, "pod affinity"},
		{"one per node", anti(v1.LabelHostname), ""},
		{"one per zone", anti(v1.LabelTopologyZone), "zone"},
		{"a long grace period", grace(86_400), "its terminationGracePeriodSeconds of 86400 s is above the ceiling of 15m0s"},
		{"a grace period at the ceiling", grace(900), ""},
		{"a grace period above it", grace(901), "ceiling"},
		{"a grace period that times a second is negative", grace(9_223_372_037), "ceiling"},
		{"a grace period that times a second is small", grace(18_446_744_074), "ceiling"},
		{"the longest grace period", grace(math.MaxInt64), "ceiling"},
		{"no grace period", grace(0), ""},
		{"a negative grace period", grace(math.MinInt64), ""},
	} {
		p := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web-1"},
			Spec:       v1.PodSpec{Containers: []v1.Container{{}}, RestartPolicy: v1.RestartPolicyAlways},
			Status:     v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
		}
		owned("ReplicaSet")(p)
		c.edit(p)
		if got := Movable(p, 0, nil); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", c.name, got, c.want)
		}
	}
}

func TestGrace(t *testing.T) {
	for _, c := range []struct {
		seconds *int64
		want    time.Duration
	}{
		{nil, 30 * time.Second},
		{new(int64(0)), 0},
		{new(int64(60)), time.Minute},
		{new(int64(-5)), time.Second},
		{new(int64(math.MaxInt64)), 876_000 * time.Hour},
		{new(int64(9_223_372_037)), 876_000 * time.Hour},
		{new(int64(math.MinInt64)), time.Second},
	} {
		p := &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: c.seconds}}
		if got := Grace(&p.Spec); got != c.want {
			t.Errorf("%v: %v, want %v", c.seconds, got, c.want)
		}
		if got, want := Patience(p, 0), min(c.want, 15*time.Minute); got != want {
			t.Errorf("%v: patience %v, want %v", c.seconds, got, want)
		}
		if got, want := Patience(p, time.Second), min(c.want, time.Second); got != want {
			t.Errorf("%v: patience %v, want %v", c.seconds, got, want)
		}
	}
	p := &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: new(int64(3600))}}
	if got := AboveCeiling(p, time.Hour); got != "" {
		t.Errorf("at the ceiling: %q", got)
	}
	if got, want := AboveCeiling(p, time.Hour-1), "its terminationGracePeriodSeconds of 3600 s is above the ceiling of 59m59.999999999s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
