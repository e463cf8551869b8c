package podspec

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Others are the constraints of a cluster's pods on others that the model of nodes lacks.
//
// The model has anti-affinity between workloads: it takes the newest pod of each for all. It lacks terms by
// other domains than nodes and zones and by the labels of namespaces, pods that are part of their nodes, and pods that
// differ from the newest of their workload.
type Others struct {
	appLabel string
	shared   bool                 // two nodes have one host name
	cordoned bool                 // pods run on a cordoned node with a zone, which no zone of the model has
	in       map[string][]*v1.Pod // by namespace
	looks    map[string][]*v1.Pod // likewise, the first of those of a group with equal labels
	newest   map[string]*v1.Pod   // by group
	mixed    map[string]bool      // groups whose pods have other terms
	spreads  map[string]bool      // groups whose pods have other hard topology spreads
	varies   map[string]string    // by group, the pod whose term selects some of its pods
	foreign  map[string]*term     // terms of pods with a node that the model lacks
	known    map[string]*term     // those that it has
	onNodes  []*v1.Pod            // looks of pods that are part of their nodes
	odd      map[string][]*v1.Pod // by group, looks with other labels than the newest
	counts   map[[2]string]string // by group and selector of a topology spread, the other pods that it counts
}

// A term is a required term of anti-affinity, of the first pod that has it.
type term struct {
	of         *v1.Pod
	selector   labels.Selector
	anywhere   bool // perhaps in any namespace
	namespaces []string
	why        string // reason why the model lacks it

	looked bool
	misses string // pods that a known one selects and the model lacks
}

func (t *term) picks(p *v1.Pod) bool {
	return (t.anywhere || slices.Contains(t.namespaces, p.Namespace)) && t.selector.Matches(labels.Set(p.Labels))
}

// Newer orders the pods of a workload: the newest holds for all. A pod that does not exist yet is the oldest.
func Newer(a, b *v1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return a.UID > b.UID
}

// NewOthers reads the pods of a cluster, wherever they are, and its nodes; appLabel is the label that names a pod's app.
func NewOthers(pods []*v1.Pod, nodes []*v1.Node, appLabel string) *Others {
	o := &Others{
		appLabel: appLabel, in: map[string][]*v1.Pod{}, looks: map[string][]*v1.Pod{}, newest: map[string]*v1.Pod{}, foreign: map[string]*term{}, known: map[string]*term{},
		mixed: map[string]bool{}, spreads: map[string]bool{}, varies: map[string]string{}, odd: map[string][]*v1.Pod{}, counts: map[[2]string]string{},
	}
	names, cordons := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		name := n.Labels[v1.LabelHostname]
		o.shared = o.shared || name != "" && names[name]
		names[name] = true
		cordons[n.Name] = n.Spec.Unschedulable && n.Labels[v1.LabelTopologyZone] != ""
	}
	type look struct {
		group, labels string
		moves         bool
	}
	seen := map[look]bool{}
	for _, p := range pods {
		if Ended(p) {
			continue
		}
		g, moves := Group(p, appLabel), Moves(p)
		o.in[p.Namespace] = append(o.in[p.Namespace], p)
		o.cordoned = o.cordoned || cordons[p.Spec.NodeName] && moves
		if key := (look{g, labels.Set(p.Labels).String(), moves}); !seen[key] {
			seen[key] = true
			o.looks[p.Namespace] = append(o.looks[p.Namespace], p)
			if !moves {
				o.onNodes = append(o.onNodes, p)
			}
		}
		if now := o.newest[g]; moves && (now == nil || Newer(p, now)) {
			o.newest[g] = p
		}
	}
	o.each(func(p *v1.Pod) {
		if g := Group(p, appLabel); Moves(p) {
			o.mixed[g] = o.mixed[g] || !sameTerms(p, o.newest[g])
			o.spreads[g] = o.spreads[g] || !equality.Semantic.DeepEqual(hardSpreads(p), hardSpreads(o.newest[g]))
		}
	})
	for _, looks := range o.looks {
		for _, p := range looks {
			if g := Group(p, appLabel); Moves(p) && !maps.Equal(p.Labels, o.newest[g].Labels) {
				o.odd[g] = append(o.odd[g], p)
			}
		}
	}
	o.each(o.read)
	return o
}

func (o *Others) each(do func(*v1.Pod)) {
	for _, namespace := range slices.Sorted(maps.Keys(o.in)) {
		for _, p := range o.in[namespace] {
			do(p)
		}
	}
}

func (o *Others) read(p *v1.Pod) {
	for _, t := range required(p) {
		why := o.unknownTerm(&t)
		switch {
		case why != "":
		case !Moves(p):
			why = "of a pod that is part of its node"
		case o.mixed[Group(p, o.appLabel)]:
			why = "which not all pods of its workload have"
		}
		key := keyOf(p, &t)
		of := o.known
		if why != "" {
			of = o.foreign
		}
		if of[key] == nil && (why == "" || p.Spec.NodeName != "") {
			of[key] = newTerm(p, &t, why)
		}
	}
}

// keyOf returns a text of the pods that a term selects. An empty selector selects all pods, a missing one none.
func keyOf(p *v1.Pod, t *v1.PodAffinityTerm) string {
	return fmt.Sprintf("%q %t %q %t %q", p.Namespace, t.LabelSelector == nil, metav1.FormatLabelSelector(t.LabelSelector), t.NamespaceSelector != nil, t.Namespaces)
}

func newTerm(p *v1.Pod, t *v1.PodAffinityTerm, why string) *term {
	selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
	if err != nil {
		selector = labels.Nothing() // the API server does not admit it
	}
	out := &term{of: p, selector: selector, anywhere: t.NamespaceSelector != nil, namespaces: t.Namespaces, why: why}
	if len(out.namespaces) == 0 && !out.anywhere {
		out.namespaces = []string{p.Namespace}
	}
	return out
}

// unknownTerm is [unknownTerm] in this cluster.
func (o *Others) unknownTerm(t *v1.PodAffinityTerm) string {
	switch why := unknownTerm(t); {
	case why != "":
		return why
	case o.shared && t.TopologyKey == v1.LabelHostname:
		return "by " + t.TopologyKey + ", which two nodes share"
	case o.cordoned && t.TopologyKey == v1.LabelTopologyZone:
		return "by zone, while pods are on cordoned nodes"
	}
	return ""
}

func required(p *v1.Pod) []v1.PodAffinityTerm {
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func hardSpreads(p *v1.Pod) (list []v1.TopologySpreadConstraint) {
	for i := range p.Spec.TopologySpreadConstraints {
		if c := &p.Spec.TopologySpreadConstraints[i]; hard(c) {
			list = append(list, *c)
		}
	}
	return list
}

func sameTerms(a, b *v1.Pod) bool {
	return a == b || slices.EqualFunc(required(a), required(b), func(x, y v1.PodAffinityTerm) bool {
		return x.TopologyKey == y.TopologyKey && (x.LabelSelector == nil) == (y.LabelSelector == nil) && metav1.FormatLabelSelector(x.LabelSelector) == metav1.FormatLabelSelector(y.LabelSelector) &&
			metav1.FormatLabelSelector(x.NamespaceSelector) == metav1.FormatLabelSelector(y.NamespaceSelector) && slices.Equal(x.Namespaces, y.Namespaces)
	})
}

// Unknown is [Unknown] with the constraints of others; nil others have none.
func (o *Others) Unknown(pod *v1.Pod) string { return first(o.Unknowns(pod)) }

// Unknowns lists all unknown constraints.
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
	group := Group(pod, o.appLabel)
	if o.mixed[group] {
		list = append(list, "its anti-affinity, which not all pods of its workload have")
	}
	if of := o.varying(group); of != "" {
		list = append(list, "the anti-affinity of "+of+", which selects some pods of its workload")
	}
	for _, t := range required(pod) {
		if unknownTerm(&t) == "" && o.unknownTerm(&t) != "" {
			list = append(list, "its anti-affinity "+o.unknownTerm(&t))
		}
		if what := o.missed(pod, &t); what != "" {
			list = append(list, "its anti-affinity, which selects "+what)
		}
	}
	if o.spreads[group] {
		list = append(list, "its topology spread, which not all pods of its workload have")
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if !hard(c) || !evenZones(c) {
			continue
		}
		of := o.counted(pod, c)
		switch {
		case o.cordoned:
			list = append(list, "its topology spread, while pods are on cordoned nodes")
		case of != "":
			list = append(list, "its topology spread, which counts "+of)
		}
	}
	return list
}

// missed names pods that a term of a pod selects and the model lacks.
func (o *Others) missed(pod *v1.Pod, of *v1.PodAffinityTerm) string {
	key := keyOf(pod, of)
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
	for _, group := range slices.Sorted(maps.Keys(o.odd)) {
		if o.some(t, group) {
			t.misses = "some pods of " + group
			break
		}
	}
	return t.misses
}

// some reports whether a term selects some pods of a group and not all.
func (o *Others) some(t *term, group string) bool {
	newest := o.newest[group]
	return slices.ContainsFunc(o.odd[group], func(p *v1.Pod) bool { return t.picks(p) != t.picks(newest) })
}

// varying names a pod whose term selects some pods of a group and not all; "" if there is none.
func (o *Others) varying(group string) string {
	if len(o.odd[group]) == 0 {
		return ""
	}
	of, looked := o.varies[group]
	if looked {
		return of
	}
	for _, key := range slices.Sorted(maps.Keys(o.known)) {
		if t := o.known[key]; of == "" && o.some(t, group) {
			of = t.of.Namespace + "/" + t.of.Name
		}
	}
	o.varies[group] = of
	return of
}

// counted names the pods of others that a topology spread of a pod counts; "" if it counts those of its group alone.
func (o *Others) counted(pod *v1.Pod, c *v1.TopologySpreadConstraint) string {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
		return "others than the pod"
	}
	group := Group(pod, o.appLabel)
	key := [2]string{group, selector.String()}
	of, looked := o.counts[key]
	if looked {
		return of
	}
	for _, p := range o.looks[pod.Namespace] {
		if selector.Matches(labels.Set(p.Labels)) != (Group(p, o.appLabel) == group) {
			of = p.Namespace + "/" + p.Name
			break
		}
	}
	o.counts[key] = of
	return of
}
