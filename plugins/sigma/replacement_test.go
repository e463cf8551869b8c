package sigma

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// replacementsIn has the default profile of kube-scheduler over some objects.
func replacementsIn(t *testing.T, objects ...runtime.Object) *replacements {
	return replacementsOf(t, v1.DefaultSchedulerName, nil, objects...)
}

// replacementsOf has one profile of a scheduler with some options over some objects.
func replacementsOf(t *testing.T, name string, options []scheduler.Option, objects ...runtime.Object) *replacements {
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	s, err := scheduler.New(t.Context(), client, factory, nil, func(string) events.EventRecorderLogger { return nil }, options...)
	require.NoError(t, err)
	r := newReplacements(s.Profiles[name])
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	return r
}

// The filters of the profile are asked as if the pod had left, and those that leave with it.
func TestRefusal(t *testing.T) {
	rack := func(name, rack string, taints ...v1.Taint) *v1.Node {
		n := node(name, 6).Label("rack", rack).Label(v1.LabelHostname, name).Obj()
		n.Spec.Taints = taints
		return n
	}
	space := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "a"}}}
	apart := func(change func(*v1.PodAffinityTerm)) *v1.Affinity {
		term := v1.PodAffinityTerm{TopologyKey: "rack", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}
		change(&term)
		return &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	}
	db := func(node string) *st.PodWrapper { return moving("db-1", "db").Node(node).Req(cores("2")) }
	other := func() *st.PodWrapper { return moving("other-1", "other").Node("b").Req(cores("1")) }
	guard := other()
	guard.Spec.Affinity = apart(func(*v1.PodAffinityTerm) {})
	byTeam := other()
	byTeam.Spec.Affinity = apart(func(a *v1.PodAffinityTerm) {
		a.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	})
	otherTeam := other()
	otherTeam.Spec.Affinity = apart(func(a *v1.PodAffinityTerm) {
		a.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	})
	lonely := db("a")
	lonely.Spec.Affinity = apart(func(*v1.PodAffinityTerm) {})
	claimed := db("a").PVC("data")
	spread := db("a")
	spread.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
	}}
	for _, tt := range []struct {
		name string
		db   *st.PodWrapper
		on   *st.PodWrapper // node b
		b    *v1.Node
		gone bool // the pod on b leaves, too
		want string
	}{
		{"room", db("a"), other(), rack("b", "1"), false, ""},
		{"no room", db("a"), other().Req(cores("3")), rack("b", "1"), false, "NodeResourcesFit: Insufficient cpu"},
		{"room once another has left", db("a"), other().Req(cores("3")), rack("b", "1"), true, ""},
		{"a new taint", db("a"), other(), rack("b", "1", v1.Taint{Key: "x", Effect: v1.TaintEffectNoSchedule}), false, "TaintToleration: node(s) had untolerated taint(s)"},
		{"another pod's rule", db("a"), guard, rack("b", "1"), false, "InterPodAffinity: node(s) didn't satisfy existing pods anti-affinity rules"},
		{"another pod that leaves", db("a"), guard, rack("b", "1"), true, ""},
		{"a rule for namespaces with a label", db("a"), byTeam, rack("b", "1"), false, "InterPodAffinity: node(s) didn't satisfy existing pods anti-affinity rules"},
		{"a rule for other namespaces", db("a"), otherTeam, rack("b", "1"), false, ""},
		{"its own rule in its own rack", lonely, other(), rack("b", "0"), false, ""},
		{"its own spread", spread, other(), rack("b", "1"), false, ""},
		{"a claim that does not exist", claimed, other(), rack("b", "1"), false, `VolumeRestrictions: persistentvolumeclaim "data" not found`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod, on := tt.db.Obj(), tt.on.Obj()
			pod.UID, on.UID = "1", "2"
			lost := pod.DeepCopy() // its node is gone
			lost.Name, lost.UID, lost.Spec.NodeName = "lost", "3", "nowhere"
			r := replacementsIn(t, space, lost, rack("a", "0"), tt.b, pod, on)
			gone := []*v1.Pod{pod}
			if tt.gone {
				gone = append(gone, on)
			}
			want := tt.want
			if want != "" {
				want = "a replacement of default/db-1 does not fit on node b: " + want
			}
			require.Equal(t, want, r.refusal(t.Context(), gone, kube.Place{Pod: pod, Node: "b"}))
			require.Equal(t, "a replacement of default/db-1 does not fit on node c: it is gone", r.refusal(t.Context(), gone, kube.Place{Pod: pod, Node: "c"}))
		})
	}
}

// A pod that waits keeps its status: its controllers have said that it needs no claim.
func TestRefusalOfWaitingPod(t *testing.T) {
	pod := moving("db-1", "db").Req(cores("2")).Obj()
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: new("x")}}
	pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "x"}}
	r := replacementsIn(t, node("a", 4).Obj(), pod)
	require.Empty(t, r.refusal(t.Context(), nil, kube.Place{Pod: pod, Node: "a"}))
}

// The filters have the arguments of the profile's pluginConfig.
func TestRefusalByArguments(t *testing.T) {
	c := configured(t, `{schedulerName: own, pluginConfig: [
    {name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [web]}]}]}}}},
    {name: NodeResourcesFit, args: {ignoredResources: [example.com/licence]}},
    {name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: []}}]}`)
	pod := moving("db-1", "db").Node("a").Req(map[v1.ResourceName]string{v1.ResourceCPU: "2", "example.com/licence": "1"}).Obj()
	r := replacementsOf(t, "own", []scheduler.Option{scheduler.WithProfiles(c.Profiles...)}, node("a", 4).Obj(), node("b", 4).Label("pool", "web").Obj(), node("c", 4).Label("pool", "db").Obj(), pod)
	require.Empty(t, r.refusal(t.Context(), []*v1.Pod{pod}, kube.Place{Pod: pod, Node: "b"}))
	require.Equal(t, "a replacement of default/db-1 does not fit on node c: NodeAffinity: node(s) didn't match scheduler-enforced node affinity",
		r.refusal(t.Context(), []*v1.Pod{pod}, kube.Place{Pod: pod, Node: "c"}))
}
