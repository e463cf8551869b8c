package podspec

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Others are what pods of a cluster say about others and the model of nodes does not have.
//
// The model knows anti-affinity between workloads: it takes the newest pod of each for all. It does not know terms by
// other domains than nodes and zones and by the labels of namespaces, pods that are part of their nodes, and pods that
// differ from the newest of their workload.
type Others struct {
	appLabel string
	shared   bool                 // two nodes have one host name
	in       map[string][]*v1.Pod // by namespace
	newest   map[string]*v1.Pod   // by group
	foreign  map[string]*term     // terms of pods that stand and that the model does not have
	known    map[string]*term     // those that it has
	onNodes  []*v1.Pod            // pods that are part of their nodes
	odd      []*v1.Pod            // pods with other labels than the newest of their group
}

// A term is a required term of anti-affinity, of the first pod that has it.
type term struct {
	of         *v1.Pod
	selector   labels.Selector
	anywhere   bool // perhaps in any namespace
	namespaces []string
	why        string // it is not known

	looked bool
	misses string // what the model does not have of what a known one selects
}

func (t *term) picks(p *v1.Pod) bool {
	return (t.anywhere || slices.Contains(t.namespaces, p.Namespace)) && t.selector.Matches(labels.Set(p.Labels))
}

// Newer orders the pods of a workload: the newest says what holds for all. A pod that does not exist yet is the oldest.
func Newer(a, b *v1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return a.UID > b.UID
}

// NewOthers reads the pods of a cluster, wherever they are, and its nodes; appLabel is the label that names a pod's app.
func NewOthers(pods []*v1.Pod, nodes []*v1.Node, appLabel string) *Others {
	o := &Others{
		appLabel: appLabel, in: map[string][]*v1.Pod{}, newest: map[string]*v1.Pod{}, foreign: map[string]*term{}, known: map[string]*term{},
	}
	names := map[string]bool{}
	for _, n := range nodes {
		name := n.Labels[v1.LabelHostname]
		o.shared = o.shared || name != "" && names[name]
		names[name] = true
	}
	for _, p := range pods {
		if Ended(p) {
			continue
		}
		o.in[p.Namespace] = append(o.in[p.Namespace], p)
		if g := Group(p, appLabel); !Moves(p) {
			o.onNodes = append(o.onNodes, p)
		} else if now := o.newest[g]; now == nil || Newer(p, now) {
			o.newest[g] = p
		}
	}
	for _, list := range o.in {
		for _, p := range list {
			o.read(p)
		}
	}
	return o
}

func (o *Others) read(p *v1.Pod) {
	newest := p
	if Moves(p) {
		newest = o.newest[Group(p, o.appLabel)]
		if !maps.Equal(p.Labels, newest.Labels) {
			o.odd = append(o.odd, p)
		}
	}
	for _, t := range required(p) {
		why := o.unknownTerm(&t)
		switch {
		case why != "":
		case !Moves(p):
			why = "of a pod that is part of its node"
		case !sameTerms(p, newest):
			why = "which the newest of its workload has not"
		}
		key := fmt.Sprint(p.Namespace, metav1.FormatLabelSelector(t.LabelSelector), t.NamespaceSelector != nil, t.Namespaces)
		of := o.known
		if why != "" {
			of = o.foreign
		}
		if of[key] == nil && (why == "" || p.Spec.NodeName != "") {
			of[key] = newTerm(p, &t, why)
		}
	}
}

func newTerm(p *v1.Pod, t *v1.PodAffinityTerm, why string) *term {
	selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
	if err != nil {
		selector = labels.Nothing() // the API server admits none
	}
	out := &term{of: p, selector: selector, anywhere: t.NamespaceSelector != nil, namespaces: t.Namespaces, why: why}
	if len(out.namespaces) == 0 && !out.anywhere {
		out.namespaces = []string{p.Namespace}
	}
	return out
}

// unknownTerm is [unknownTerm] in this cluster.
func (o *Others) unknownTerm(t *v1.PodAffinityTerm) string {
	if why := unknownTerm(t); why != "" || !o.shared || t.TopologyKey != v1.LabelHostname {
		return why
	}
	return "by " + t.TopologyKey + ", which two nodes share"
}

func required(p *v1.Pod) []v1.PodAffinityTerm {
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func sameTerms(a, b *v1.Pod) bool {
	return a == b || slices.EqualFunc(required(a), required(b), func(x, y v1.PodAffinityTerm) bool {
		return x.TopologyKey == y.TopologyKey && metav1.FormatLabelSelector(x.LabelSelector) == metav1.FormatLabelSelector(y.LabelSelector) &&
			metav1.FormatLabelSelector(x.NamespaceSelector) == metav1.FormatLabelSelector(y.NamespaceSelector) && slices.Equal(x.Namespaces, y.Namespaces)
	})
}

// Unknown is [Unknown] with what others say. nil others say nothing.
func (o *Others) Unknown(pod *v1.Pod) string { return first(o.Unknowns(pod)) }

// Unknowns lists all that is not known.
func (o *Others) Unknowns(pod *v1.Pod) []string {
	list := unknowns(pod)
	if o == nil {
		return list
	}
	for _, key := range slices.Sorted(maps.Keys(o.foreign)) {
		if t := o.foreign[key]; t.picks(pod) {
			list = append(list, fmt.Sprintf("the anti-affinity of %s/%s %s", t.of.Namespace, t.of.Name, t.why))
		}
	}
	newest := o.newest[Group(pod, o.appLabel)]
	switch {
	case newest == nil: // it is not in the cluster
	case !sameTerms(pod, newest):
		list = append(list, "its anti-affinity, which the newest of its workload has not")
	case !maps.Equal(pod.Labels, newest.Labels):
		for _, key := range slices.Sorted(maps.Keys(o.known)) {
			if t := o.known[key]; t.picks(pod) != t.picks(newest) {
				list = append(list, fmt.Sprintf("the anti-affinity of %s/%s, which selects some pods of its workload", t.of.Namespace, t.of.Name))
				break
			}
		}
	}
	for _, t := range required(pod) {
		if o.shared && unknownTerm(&t) == "" && o.unknownTerm(&t) != "" {
			list = append(list, "its anti-affinity "+o.unknownTerm(&t))
		}
		if what := o.missed(pod, &t); what != "" {
			list = append(list, "its anti-affinity, which selects "+what)
		}
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		if c := &pod.Spec.TopologySpreadConstraints[i]; Hard(c) && EvenZones(c) {
			if of := o.counted(pod, c); of != "" {
				list = append(list, "its topology spread, which counts "+of)
			}
		}
	}
	return list
}

// missed names pods that a term of a pod selects and the model does not have.
func (o *Others) missed(pod *v1.Pod, of *v1.PodAffinityTerm) string {
	key := fmt.Sprint(pod.Namespace, metav1.FormatLabelSelector(of.LabelSelector), of.NamespaceSelector != nil, of.Namespaces)
	t := o.known[key]
	if t == nil {
		t = newTerm(pod, of, "")
		o.known[key] = t
	}
	if t.looked {
		return t.misses
	}
	t.looked = true
	if i := slices.IndexFunc(o.onNodes, t.picks); i >= 0 {
		t.misses = fmt.Sprintf("%s/%s, a part of its node", o.onNodes[i].Namespace, o.onNodes[i].Name)
		return t.misses
	}
	for _, p := range o.odd {
		if newest := o.newest[Group(p, o.appLabel)]; t.picks(p) != t.picks(newest) {
			t.misses = fmt.Sprintf("some pods of the workload of %s/%s", p.Namespace, p.Name)
			break
		}
	}
	return t.misses
}

// counted names the pods of others that a topology spread of a pod counts; "" = it counts those of its group alone.
func (o *Others) counted(pod *v1.Pod, c *v1.TopologySpreadConstraint) string {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
		return "others than the pod"
	}
	group := Group(pod, o.appLabel)
	for _, p := range o.in[pod.Namespace] {
		if selector.Matches(labels.Set(p.Labels)) != (Group(p, o.appLabel) == group) {
			return p.Namespace + "/" + p.Name
		}
	}
	return ""
}
