package snapshot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// names returns the names of machines.
func names(q *Question, machines []int32) []string {
	var list []string
	for _, m := range machines {
		list = append(list, q.State.NodeName(m))
	}
	return list
}

// The part of an affinity that a node lacks is named, and the pods that hold a GPU.
func TestAskNamesKeysAndHolders(t *testing.T) {
	gpu := func(n *v1.Node) { n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("1") }
	asks := func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1") }
	disk := func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: v1.LabelInstanceTypeStable, Operator: v1.NodeSelectorOpExists}, {Key: "disk", Operator: v1.NodeSelectorOpIn, Values: []string{"ssd", "nvme"}},
			},
		}}}}}
	}
	p := picture([]*v1.Node{node("a", typed("m5"), gpu), node("b")},
		pod("train", "train-0", "a", "1", asks), pod("train", "train-1", "", "1", asks), pod("db", "db-0", "", "1", disk))
	q, err := p.Ask("shop/train-1", "", "open", nil)
	require.NoError(t, err)
	require.Equal(t, []Holder{{"shop/train-0", "a", "nvidia.com/gpu", "1"}}, q.Holders)
	q, err = p.Ask("shop/db-0", "", "open", nil)
	require.NoError(t, err)
	require.Empty(t, q.Holders)
	require.Equal(t, "the pod's node affinity disk In ssd, nvme does not admit the node", q.Refusal("a"))
	require.Equal(t, "the pod's node affinity node.kubernetes.io/instance-type Exists does not admit the node", q.Refusal("b"))
}

func TestAsk(t *testing.T) {
	unready := func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoExecute}}
	}
	p := picture([]*v1.Node{node("free"), node("full"), node("gpu", tainted), node("closed", cordoned), node("late", unready), node("labelled", typed("big"))},
		pod("web", "web-1", "full", "3500m"),
		pod("web", "web-2", "", "2", func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "0/6 nodes are available"}}
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}}
			p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}}
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.DoNotSchedule}}
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{}}
			zone := []v1.PodAffinityTerm{{TopologyKey: v1.LabelTopologyZone}}
			p.Spec.Affinity = &v1.Affinity{
				PodAffinity:     &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: zone},
				PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: zone},
			}
		}),
		pod("pinned", "pinned-1", "", "1", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelInstanceTypeStable: "big"} }),
		pod("agent", "agent-1", "free", "1", ofDaemonSet),
	)
	p.Declared.Deployments = []*appsv1.Deployment{deployment("web", 4, "2")}
	q, err := p.Ask("shop/web-2", "", "open", nil)
	require.NoError(t, err)
	require.Empty(t, q.Node)
	require.Equal(t, "shop/Deployment/web@cpu=2", q.App)
	require.Equal(t, []string{"free", "labelled"}, names(q, q.Allowed))
	require.Equal(t, []string{"closed"}, q.Cordoned)
	require.Equal(t, map[string]string{"late": "node.kubernetes.io/not-ready:NoExecute"}, q.Unready)
	require.Equal(t, "the pod does not tolerate the taint gpu=yes:NoSchedule", q.Refusal("gpu"))
	require.Equal(t, "0/6 nodes are available", q.Waits)
	require.Equal(t, []string{"its volumes", "its resource claims", "its host ports", "its topology spread", "its pod affinity", "its anti-affinity, which not all pods of its workload have", "its topology spread, which not all pods of its workload have"}, q.Beyond)
	state := q.State.Columns()
	require.Equal(t, 4.0, state.Known.Expected[q.State.AppIndex(q.App)])
	require.EqualValues(t, 1, state.Seen()[q.State.AppIndex(q.App)], "it has arrived, as in a scheduler")

	// A pod that stands is ranked as if it were new.
	q, err = p.Ask("shop/web-1", "", "open", nil)
	require.NoError(t, err)
	require.Equal(t, "full", q.Node)
	require.Equal(t, []string{"full", "labelled"}, names(q, q.Allowed), "it is not in its own way")
	require.Equal(t, []string{"its anti-affinity, which not all pods of its workload have", "its topology spread, which not all pods of its workload have"}, q.Beyond)

	q, err = p.Ask("shop/pinned-1", "", "open", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"labelled"}, names(q, q.Allowed))
	require.Equal(t, "the pod's nodeSelector node.kubernetes.io/instance-type=big does not admit the node", q.Refusal("free"))
	require.Equal(t, v1.LabelInstanceTypeStable, q.MissingKey("free"))
	require.Empty(t, q.MissingKey("labelled"))

	_, err = p.Ask("shop/none", "", "open", nil)
	require.EqualError(t, err, "there is no pod shop/none, or it has ended")
	_, err = p.Ask("shop/agent-1", "", "open", nil)
	require.ErrorContains(t, err, "no scheduler chooses a node for shop/agent-1")
}

func TestAskLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	log, err := ledger.OpenLog(path)
	require.NoError(t, err)
	live := ledger.New()
	var failed error
	take := func(e *ledger.Event) {
		if err := live.Apply(e); err != nil {
			failed = err
		}
		require.NoError(t, log.Write(e))
	}
	object := &policy.Object{APIVersion: policy.APIVersion, Kind: policy.ObjectKind, Metadata: policy.Metadata{Name: "mine"}}
	object.Spec = policy.Spec{FeatureVersion: policy.FeatureVersion, Model: "linear", Knowledge: "K0", Features: []string{"util"}, Weights: []float64{1}}
	take(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed", Units: podspec.Units}})
	take(&ledger.Event{Kind: ledger.KindPolicy, Role: ledger.Primary, Policy: object})
	cluster := kube.NewTranslator("", live, take)
	for _, name := range []string{"a", "b", "c"} {
		cluster.SetNode(node(name), nil)
	}
	decide := func(name, on string, d *ledger.Decision) {
		p := pod("web", name, "", "1")
		cluster.Arrive(p)
		d.PolicyDigest = object.Digest()
		cluster.Decide(p, on, d)
	}
	decide("one", "a", &ledger.Decision{Cause: ledger.CausePolicy})
	decide("two", "b", &ledger.Decision{Cause: ledger.CausePolicy, Infeasible: []string{"a"}})
	cluster.Undo(pod("web", "two", "", "1")) // its binding failed
	decide("two", "c", &ledger.Decision{Cause: ledger.CausePolicy, Infeasible: []string{"b"}})
	decide("three", "a", &ledger.Decision{Cause: ledger.CauseSingle})
	require.NoError(t, failed)
	require.NoError(t, log.Close())

	q, err := AskLog([]string{path}, "shop/two")
	require.NoError(t, err)
	require.Equal(t, "c", q.Node, "the latest decision")
	require.Equal(t, []string{"a", "c"}, names(q, q.Allowed))
	require.Equal(t, "mine", q.Object.Metadata.Name)
	require.EqualValues(t, 1, q.State.Columns().AliveTotal(), "one stands, three is not there yet")
	require.Empty(t, q.Refusal("a"), "a log does not say")

	_, err = AskLog([]string{path}, "shop/four")
	require.EqualError(t, err, path+": no decision on pod shop/four")
	require.NoError(t, os.WriteFile(path, []byte(begun+"{\n{}\n"), 0o600))
	_, err = AskLog([]string{path}, "shop/four")
	require.ErrorContains(t, err, path+":2: ")
	_, err = AskLog([]string{path + "x"}, "shop/four")
	require.ErrorIs(t, err, os.ErrNotExist)
}
