package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// widerKind names a refusal of a filter that a model does not have: the filter, its reason, and what of the pods or the node it came from.
func (c *cluster) widerKind(p *v1.Pod, n *v1.Node, r refusal) string {
	kind := r.plugin + ": " + r.reason
	switch r.plugin {
	case "NodeAffinity", "NodeUnschedulable":
		return kind + itsOwn(p, n)
	case "TaintToleration":
		taint := podspec.Untolerated(n, p.Spec.Tolerations)
		if taint == nil {
			return kind + " (a numeric toleration)"
		}
		return "TaintToleration: " + taint.Key + itsOwn(p, n)
	case "InterPodAffinity":
		if strings.Contains(r.reason, "existing pods") {
			return kind + c.theirTerms(p, n)
		}
		return kind + c.ownTerms(p, n, !strings.Contains(r.reason, "anti-affinity"))
	case "PodTopologySpread":
		return kind + spreadFeatures(p)
	case "NodeResourcesFit":
		return kind + c.roomFeature(p, n, "")
	}
	return kind
}

// itsOwn says that a pod is on a node that does not admit it any more.
func itsOwn(p *v1.Pod, n *v1.Node) string {
	if p.Spec.NodeName == n.Name {
		return " (its own node)"
	}
	return ""
}

// narrowerKind names why a model refuses what all filters allow.
func (c *cluster) narrowerKind(p *v1.Pod, n *v1.Node, why string) string {
	switch {
	case n.Spec.Unschedulable:
		return "a cordon that the pod tolerates"
	case strings.HasPrefix(why, "room"):
		return why + c.roomFeature(p, n, strings.TrimPrefix(why, "room of "))
	case why == "selector":
		return why + selectorFeatures(p)
	case strings.HasPrefix(why, "limit"), strings.HasPrefix(why, "pair"):
		return why + c.imagined(p)
	case why == "taint":
		return why + " " + podspec.Untolerated(n, p.Spec.Tolerations).Key
	}
	return why
}

func listed(features []string) string {
	slices.Sort(features)
	if features = slices.Compact(features); len(features) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.Join(features, ", "))
}

// imagined names where a term came from that holds for none of the pods: a selector of namespaces that was read as the pod's own, or
// another pod of an app, which spoke for all of it.
func (c *cluster) imagined(p *v1.Pod) string {
	reads := func(own, other *v1.Pod) bool {
		return slices.ContainsFunc(termsOf(own), func(t v1.PodAffinityTerm) bool {
			selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
			if err != nil || t.NamespaceSelector == nil || own.Namespace != other.Namespace && !slices.Contains(t.Namespaces, other.Namespace) {
				return false
			}
			return len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) > 0 && selector.Matches(labels.Set(other.Labels))
		})
	}
	if slices.ContainsFunc(c.Pods, func(o *v1.Pod) bool { return reads(p, o) || reads(o, p) }) {
		return " (namespaceSelector)"
	}
	return " (pods of one app differ)"
}

func termsOf(p *v1.Pod) []v1.PodAffinityTerm {
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// featuresOf are what is unusual in a term.
func featuresOf(t *v1.PodAffinityTerm) string {
	var of []string
	switch t.TopologyKey {
	case v1.LabelHostname:
	case v1.LabelTopologyZone:
		of = append(of, "zone")
	default:
		of = append(of, "another key")
	}
	if len(t.MatchLabelKeys)+len(t.MismatchLabelKeys) > 0 {
		of = append(of, "matchLabelKeys")
	}
	switch s := t.NamespaceSelector; {
	case s == nil:
	case len(s.MatchLabels)+len(s.MatchExpressions) == 0:
		of = append(of, "all namespaces")
	default:
		of = append(of, "namespaceSelector")
	}
	if len(t.Namespaces) > 0 {
		of = append(of, "namespaces")
	}
	if len(of) == 0 {
		return plain
	}
	return strings.Join(of, " + ")
}

// parsed are the required terms of a pod as upstream reads them, of anti-affinity or affinity.
func parsed(p *v1.Pod, together bool) ([]fwk.AffinityTerm, []v1.PodAffinityTerm) {
	info, err := framework.NewPodInfo(p)
	if err != nil {
		panic(err)
	}
	if together {
		return info.GetRequiredAffinityTerms(), p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return info.GetRequiredAntiAffinityTerms(), termsOf(p)
}

func (c *cluster) labelsOf(namespace string) labels.Set {
	for _, n := range c.Namespaces {
		if n.Name == namespace {
			return n.Labels
		}
	}
	return nil
}

// sharing are the pods in the domain of a node, without one.
func (c *cluster) sharing(n *v1.Node, key string, without *v1.Pod) (pods []*v1.Pod) {
	value, ok := n.Labels[key]
	on := c.on()
	for _, o := range c.Nodes {
		if other, is := o.Labels[key]; ok && is && other == value {
			pods = append(pods, on[o.Name]...)
		}
	}
	return slices.DeleteFunc(pods, func(o *v1.Pod) bool { return o == without })
}

// ownTerms is the feature of the terms of a pod that keep it off a node.
func (c *cluster) ownTerms(p *v1.Pod, n *v1.Node, together bool) string {
	var of []string
	list, raw := parsed(p, together)
	for i, t := range list {
		met := slices.DeleteFunc(c.sharing(n, t.TopologyKey, p), func(o *v1.Pod) bool { return !t.Matches(o, c.labelsOf(o.Namespace)) })
		if len(met) > 0 != together {
			of = append(of, c.featureOf(n, &raw[i], slices.Concat(met, []*v1.Pod{p})))
		}
	}
	if len(of) == 0 { // a fault of 1.36, mended in 1.37: own selectors of namespaces are asked about no labels
		return " (namespaceSelector that no labels match)"
	}
	return simplest(of)
}

// simplest is the least unusual of several causes, each of which is sufficient.
func simplest(of []string) string {
	slices.SortFunc(of, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "+"), strings.Count(b, "+")), cmp.Compare(a, b))
	})
	return fmt.Sprintf(" (%s)", of[0])
}

// theirTerms is the feature of the terms of other pods that keep one off a node.
func (c *cluster) theirTerms(p *v1.Pod, n *v1.Node) string {
	var of []string
	for _, o := range c.Pods {
		list, raw := parsed(o, false)
		for i, t := range list {
			if o != p && o.Spec.NodeName != "" && slices.Contains(c.sharing(n, t.TopologyKey, p), o) && t.Matches(p, c.labelsOf(p.Namespace)) {
				of = append(of, c.featureOf(n, &raw[i], []*v1.Pod{p, o}))
			}
		}
	}
	return simplest(of)
}

// featureOf is what is unusual in a term or, if nothing is, in the node or the pods between which it holds.
func (c *cluster) featureOf(n *v1.Node, t *v1.PodAffinityTerm, pods []*v1.Pod) string {
	sharesName := func(o *v1.Node) bool { return o != n && o.Labels[v1.LabelHostname] == n.Labels[v1.LabelHostname] }
	switch of := featuresOf(t); {
	case of != plain:
		return of
	case slices.ContainsFunc(pods, func(o *v1.Pod) bool { return !podspec.Moves(o) }):
		return "pods of a node"
	case t.TopologyKey == v1.LabelHostname && slices.ContainsFunc(c.Nodes, sharesName):
		return "two nodes of one host name"
	case slices.ContainsFunc(pods, c.mixed):
		return "pods of one app differ"
	}
	return plain
}

// mixed reports whether the pods of a pod's app differ in terms or labels.
func (c *cluster) mixed(p *v1.Pod) bool {
	group := podspec.Group(p, appLabel)
	key := func(o *v1.Pod) string {
		return fmt.Sprint(termsOf(o), o.Labels["app"], o.Labels["tier"], o.Labels["version"])
	}
	return slices.ContainsFunc(c.Pods, func(o *v1.Pod) bool { return podspec.Group(o, appLabel) == group && key(o) != key(p) })
}

const plain = "plain"

func spreadFeatures(p *v1.Pod) string {
	var of []string
	for _, s := range p.Spec.TopologySpreadConstraints {
		if s.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		of = append(of, featuresOf(&v1.PodAffinityTerm{TopologyKey: s.TopologyKey, MatchLabelKeys: s.MatchLabelKeys}))
		if s.NodeTaintsPolicy != nil || s.NodeAffinityPolicy != nil {
			of = append(of, "policies")
		}
		if s.MinDomains != nil {
			of = append(of, "minDomains")
		}
	}
	return listed(of)
}

func selectorFeatures(p *v1.Pod) string {
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	var of []string
	for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, r := range slices.Concat(t.MatchExpressions, t.MatchFields) {
			of = append(of, string(r.Operator))
		}
	}
	return listed(of)
}

// roomFeature is what is unusual in the demand of a pod, or of those on a node.
func (c *cluster) roomFeature(p *v1.Pod, n *v1.Node, dimension string) string {
	resizes := func(o *v1.Pod) bool {
		return slices.ContainsFunc(o.Status.Conditions, func(k v1.PodCondition) bool { return k.Type == v1.PodResizePending || k.Type == v1.PodResizeInProgress })
	}
	whole := func(o *v1.Pod) bool { return o.Spec.Resources != nil && o.Status.AllocatedResources != nil }
	there := slices.DeleteFunc(c.on()[n.Name], func(o *v1.Pod) bool { return o == p })
	switch {
	case dimension != "" && podspec.Demand(p)[dimension] == 0:
		return " that the pod does not ask for"
	case whole(p):
		return " (its own resize as a whole)"
	case resizes(p):
		return " (its own resize)"
	case p.Spec.NodeName == n.Name:
		return " (on its own node)"
	case slices.ContainsFunc(there, whole):
		return " (the resize of a pod as a whole)"
	case slices.ContainsFunc(there, resizes):
		return " (a resize)"
	}
	return ""
}
