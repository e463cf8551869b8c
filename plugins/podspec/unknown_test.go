package podspec

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Every field of what filters read of a pod is named: one that a later Kubernetes adds is a constraint that is not known
// until somebody has looked whether a filter reads it.
func TestFieldsAreRead(t *testing.T) {
	notKnown := map[string]bool{"SchedulingGroup": true, "RestartPolicyRules": true, "MatchLabelKeys": true, "MismatchLabelKeys": true}
	for of, names := range read {
		for name := range names {
			_, ok := of.FieldByName(name)
			require.True(t, ok, "%s has no field %s any more", of, name)
		}
		for _, i := range notRead[of] {
			name := of.Field(i).Name
			volume := of == reflect.TypeFor[v1.VolumeSource]()
			required := of == reflect.TypeFor[v1.PodAffinity]() && name == "RequiredDuringSchedulingIgnoredDuringExecution"
			require.True(t, volume || required || notKnown[name], "%s: does a filter of the scheduler read its field %s? Name it in read, or here", of, name)
		}
	}
}

// Each field that is not read makes a pod unknown.
func TestFieldsThatAreNotRead(t *testing.T) {
	fill := func(v reflect.Value) { // with something that is not zero
		switch v.Kind() {
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		default:
			t.Fatalf("a field of kind %s", v.Kind())
		}
	}
	for of, list := range notRead {
		for _, i := range list {
			p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}}, InitContainers: []v1.Container{{}}, Affinity: &v1.Affinity{
				NodeAffinity: &v1.NodeAffinity{}, PodAffinity: &v1.PodAffinity{}, PodAntiAffinity: &v1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname}},
				},
			}, TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
				TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, NodeTaintsPolicy: new(v1.NodeInclusionPolicyHonor),
			}}, Volumes: []v1.Volume{{}}}}
			require.Empty(t, Unknown(p))
			for _, object := range []any{
				&p.Spec, &p.Spec.InitContainers[0], p.Spec.Affinity, p.Spec.Affinity.NodeAffinity, p.Spec.Affinity.PodAffinity, p.Spec.Affinity.PodAntiAffinity,
				&p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0], &p.Spec.TopologySpreadConstraints[0], &p.Spec.Volumes[0].VolumeSource,
			} {
				if v := reflect.ValueOf(object).Elem(); v.Type() == of {
					fill(v.Field(i))
				}
			}
			require.NotEmpty(t, Unknown(p), "%s.%s", of, of.Field(i).Name)
		}
	}
}

// What the pods that stand say of others counts, too.
func TestOthers(t *testing.T) {
	labelled := func(of map[string]string) *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: of} }
	web := map[string]string{"app": "web"}
	stands := func(namespace string, terms ...v1.PodAffinityTerm) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}, Spec: v1.PodSpec{NodeName: "n", Affinity: &v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
		}}}
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: web}}
	agent := stands("shop", v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: labelled(web)})
	agent.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "agent"}, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	ended := stands("shop", v1.PodAffinityTerm{TopologyKey: "rack", LabelSelector: labelled(web)})
	ended.Status.Phase = v1.PodSucceeded
	for _, c := range []struct {
		name  string
		other *v1.Pod
		want  string
	}{
		{"by rack", stands("shop", v1.PodAffinityTerm{TopologyKey: "rack", LabelSelector: labelled(web)}), "the anti-affinity of shop/other by rack"},
		{"by rack, of others", stands("shop", v1.PodAffinityTerm{TopologyKey: "rack", LabelSelector: labelled(map[string]string{"app": "db"})}), ""},
		{"by rack, in another namespace", stands("bank", v1.PodAffinityTerm{TopologyKey: "rack", LabelSelector: labelled(web)}), ""},
		{"by rack, in named namespaces", stands("bank", v1.PodAffinityTerm{TopologyKey: "rack", LabelSelector: labelled(web), Namespaces: []string{"shop"}}), "by rack"},
		{"by host, in labelled namespaces", stands("bank", v1.PodAffinityTerm{
			TopologyKey: v1.LabelHostname, LabelSelector: labelled(web), NamespaceSelector: labelled(map[string]string{"team": "a"}),
		}), "by the labels of namespaces"},
		{"by host, which the model has", stands("shop", v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: labelled(web)}), ""},
		{"by host, of an agent", agent, "of a pod that is part of its node"},
		{"of one that has ended", ended, ""},
	} {
		got := NewOthers([]*v1.Pod{c.other, pod}, nil, "").Unknown(pod)
		if c.want == "" {
			require.Empty(t, got, c.name)
			continue
		}
		require.Contains(t, got, c.want, c.name)
	}
	require.Empty(t, (*Others)(nil).Unknown(pod))

	// A spread counts all pods that its selector picks.
	pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: labelled(web), NodeTaintsPolicy: new(v1.NodeInclusionPolicyHonor),
	}}
	same := pod.DeepCopy()
	same.Name = "web-2"
	require.Empty(t, NewOthers([]*v1.Pod{pod, same}, nil, "").Unknown(pod))
	same.Spec.TopologySpreadConstraints[0].MaxSkew = 2 // a roll-out changes it
	require.Equal(t, "its topology spread, which not all pods of its workload have", NewOthers([]*v1.Pod{pod, same}, nil, "").Unknown(pod))
	same.Spec.TopologySpreadConstraints = nil // its replacement would have it
	require.Equal(t, "its topology spread, which not all pods of its workload have", NewOthers([]*v1.Pod{pod, same}, nil, "").Unknown(same))
	same.Spec.TopologySpreadConstraints = pod.DeepCopy().Spec.TopologySpreadConstraints
	same.Name = "api-1"
	require.Equal(t, "its topology spread, which counts shop/api-1", NewOthers([]*v1.Pod{pod, same}, nil, "").Unknown(pod))
	pod.Spec.TopologySpreadConstraints[0].NodeTaintsPolicy = nil // Ignore
	require.Equal(t, "its topology spread", NewOthers(nil, nil, "").Unknown(pod))
}

// Only taints for a condition come and go by themselves. Any other key says what a node is for.
func TestTaints(t *testing.T) {
	node := func(taints ...v1.Taint) *v1.Node { return &v1.Node{Spec: v1.NodeSpec{Taints: taints}} }
	plain := NewSelector(&v1.Pod{Spec: v1.PodSpec{Tolerations: []v1.Toleration{
		{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
		{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(60))},
	}}})
	require.Empty(t, plain.ID, "the tolerations that every pod has")
	all := NewSelector(&v1.Pod{Spec: v1.PodSpec{Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}}}})
	for _, key := range conditions {
		n := node(v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule})
		require.NotNil(t, Unwell(n), key)
		require.False(t, plain.Admits(n), key)
		require.True(t, all.Admits(n), key)
		own := NewSelector(&v1.Pod{Spec: v1.PodSpec{Tolerations: []v1.Toleration{{Key: key, Operator: v1.TolerationOpExists}}}})
		require.True(t, own.Admits(n), key)
		require.Nil(t, Unwell(node(v1.Taint{Key: key, Effect: v1.TaintEffectPreferNoSchedule})))
	}
	for _, key := range []string{"node.kubernetes.io/os", "node.kubernetes.io/new", "gpu"} {
		n := node(v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule})
		require.Nil(t, Unwell(n), key)
		require.False(t, plain.Admits(n), key)
	}
	cordon := node(v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
	require.True(t, plain.Admits(cordon), "spec.unschedulable says it")
	require.Nil(t, Unwell(cordon))
}

// A value of an opt-out that is no clear no keeps a pod where it is.
func TestOptOuts(t *testing.T) {
	for name, values := range map[string]map[string]bool{
		"karpenter.sh/do-not-disrupt":                        {"true": true, "false": false, "4h": true, "": true, "no": true},
		"karpenter.sh/do-not-evict":                          {"true": true, "false": false},
		"cluster-autoscaler.kubernetes.io/safe-to-evict":     {"false": true, "true": false, "": true, "False": true},
		"descheduler.alpha.kubernetes.io/prefer-no-eviction": {"": true, "true": true, "false": false},
		"sigma-scheduler.io/something":                       {"true": false},
	} {
		for value, stays := range values {
			require.Equal(t, stays, optedOut(ofPods, map[string]string{name: value}) == name, "%s: %q", name, value)
		}
	}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"cluster-autoscaler.kubernetes.io/scale-down-disabled": "yes"}}}
	require.NotEmpty(t, StaysNode(n))
	n.Annotations["cluster-autoscaler.kubernetes.io/scale-down-disabled"] = "false"
	require.Empty(t, StaysNode(n))
}

// A node that a selector admits has one label of each list that it asks for.
func TestAsks(t *testing.T) {
	in := func(key string, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}
	}
	exists := v1.NodeSelectorRequirement{Key: "x", Operator: v1.NodeSelectorOpExists}
	asks := func(own map[string]string, terms ...v1.NodeSelectorTerm) [][]Label {
		p := &v1.Pod{Spec: v1.PodSpec{NodeSelector: own}}
		if terms != nil {
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
		}
		return NewSelector(p).Asks()
	}
	require.Empty(t, asks(nil))
	require.Equal(t, [][]Label{{{"a", "1"}}, {{"b", "2"}}}, asks(map[string]string{"a": "1", "b": "2"}))
	require.Equal(t, [][]Label{{{"", "n1"}}}, asks(nil, v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{in("metadata.name", "n1")}}))
	require.Equal(t, [][]Label{{{"a", "1"}, {"b", "2"}, {"b", "3"}}}, asks(nil,
		v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{exists, in("a", "1")}}, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{in("b", "2", "3")}}))
	require.Empty(t, asks(nil, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{in("a", "1")}}, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{exists}}))
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"a": "1"}}}
	require.ElementsMatch(t, []Label{{"", "n1"}, {"a", "1"}}, slices.Collect(LabelsOf(n)))
}

// A pod of another size than its specification says has no replacement of that size.
func TestResizing(t *testing.T) {
	of := func(cpu string) v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)} }
	pod := func(status ...v1.ContainerStatus) *v1.Pod {
		p := &v1.Pod{Status: v1.PodStatus{ContainerStatuses: status}}
		p.Spec = v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: of("1")}}}}
		return p
	}
	has := func(cpu string) v1.ContainerStatus {
		return v1.ContainerStatus{Name: "c", AllocatedResources: of(cpu), Resources: &v1.ResourceRequirements{Requests: of(cpu)}}
	}
	require.Empty(t, Unknown(pod()))
	require.Empty(t, Unknown(pod(has("1000m"))), "the same in other words")
	require.Equal(t, "its resize, which is under way", Unknown(pod(has("2"))))
	require.Empty(t, Unknown(pod(has("500m"))), "it is to grow, and counts as it will be")
	waits := pod(has("2"))
	waits.Spec.NodeName = ""
	require.Empty(t, Unknown(waits))
}

// A term without a selector selects no pod, one with an empty selector all.
func TestNoSelector(t *testing.T) {
	web := func(name string, s *metav1.LabelSelector) *v1.Pod {
		terms := []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname, LabelSelector: s}}
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		p.Spec.NodeName, p.Spec.Affinity = "n", &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
		return p
	}
	agent := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "agent"}, appsv1.SchemeGroupVersion.WithKind("DaemonSet")),
	}}}
	none, all := web("none", nil), web("all", &metav1.LabelSelector{})
	o := NewOthers([]*v1.Pod{none, all, agent}, nil, "")
	require.Empty(t, o.Unknown(none))
	require.Equal(t, "its anti-affinity, which selects shop/agent, a part of its node", o.Unknown(all))
}

// Fields have the names that they have in a manifest.
func TestNamesOfFields(t *testing.T) {
	term := v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, MatchLabelKeys: []string{"pod-template-hash"}}
	require.Equal(t, "by matchLabelKeys", unknownTerm(&term))
	for what := range notRead {
		object := reflect.New(what).Elem()
		for _, i := range notRead[what] {
			require.Regexp(t, "^[a-z][A-Za-z]*$", nameOfField(object.Type().Field(i)))
		}
	}
}
