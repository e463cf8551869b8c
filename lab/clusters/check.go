package clusters

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// Taken returns the names of nodes that have a pod which no DaemonSet and no node itself owns.
func (w *World) Taken() map[string]bool {
	taken := map[string]bool{}
	for name, pods := range w.at {
		for _, p := range pods {
			if !slices.ContainsFunc(p.Metadata.OwnerReferences, func(o anOwner) bool { return o.Kind == "DaemonSet" || o.Kind == "Node" }) {
				taken[name] = true
			}
		}
	}
	return taken
}

// Stays reports whether nobody removes a node: it is not well, or runs the cluster.
func (w *World) Stays(name string) bool {
	n := w.nodes[name]
	if _, ok := n.Metadata.Labels["node-role.kubernetes.io/control-plane"]; ok {
		return true
	}
	for _, t := range n.Spec.Taints {
		if strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Key != "node.kubernetes.io/unschedulable" {
			return true
		}
	}
	return false
}

// End removes the pods that are being deleted, but those whose controller creates them again under their name.
func (w *World) End() {
	for _, p := range w.pods {
		again := slices.ContainsFunc(p.Metadata.OwnerReferences, func(o anOwner) bool { return o.Controller && o.Kind != "ReplicaSet" })
		if p.Metadata.DeletionTimestamp != "" && !again {
			w.put(p, "")
		}
	}
}

// Move evicts a pod and creates it again on another node, and returns what forbids it; "" = nothing.
func (w *World) Move(pod, from, to string) string {
	p := w.pods[pod]
	switch {
	case p == nil:
		return pod + ": no such pod"
	case p.Spec.NodeName != from:
		return fmt.Sprintf("%s: it is on %s, not on %s", pod, p.Spec.NodeName, from)
	case w.nodes[to] == nil:
		return fmt.Sprintf("%s: no node %s", pod, to)
	}
	if why := w.evictable(p, true); why != "" {
		return pod + ": " + why
	}
	w.put(p, "")
	why := w.refused(p, to)
	w.put(p, to)
	if why != "" {
		return fmt.Sprintf("%s to %s: %s", pod, to, why)
	}
	return ""
}

// evictable returns what forbids that a controller makes the end of a pod good: now, by an eviction, or at any time.
func (w *World) evictable(p *aPod, now bool) string {
	owner := ""
	for _, o := range p.Metadata.OwnerReferences {
		if o.Controller {
			owner = o.Kind
		}
	}
	switch {
	case owner == "":
		return "nothing creates it again"
	case owner == "DaemonSet" || owner == "Node":
		return "its place is its node"
	case p.Metadata.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false":
		return "it is annotated as not to be evicted"
	}
	for _, v := range p.Spec.Volumes {
		if v["persistentVolumeClaim"] != nil {
			return "its volume may be bound to its place"
		}
	}
	for _, b := range w.budgets {
		if now && b.Metadata.Namespace == p.Metadata.Namespace && b.Spec.Selector.matches(p.Metadata.Labels) && b.Status.DisruptionsAllowed < 1 {
			return "the budget " + b.Metadata.Name + " allows no disruption"
		}
	}
	return ""
}

// refused returns the filter of kube-scheduler that refuses a node for a pod that has none; "" = all let it pass.
func (w *World) refused(p *aPod, name string) string {
	n := w.nodes[name]
	if n.Spec.Unschedulable {
		return "it is cordoned"
	}
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" && c.Status != "True" {
			return "it is not ready"
		}
	}
	if !w.admits(p, n, true) {
		return "node selector, affinity or taints"
	}
	if why := w.full(p, name); why != "" {
		return why
	}
	for _, t := range w.terms {
		domain, ok := n.Metadata.Labels[t.key]
		if !ok {
			continue
		}
		_, has := t.have[p.key]
		_, against := t.against[p.key]
		if has && w.inDomain(t.against, p, t.key, domain) || against && w.inDomain(t.have, p, t.key, domain) {
			return "anti-affinity by " + t.key
		}
	}
	for i := range p.Spec.TopologySpreadConstraints {
		s := &p.Spec.TopologySpreadConstraints[i]
		if s.WhenUnsatisfiable != "DoNotSchedule" {
			continue
		}
		domain, ok := n.Metadata.Labels[s.TopologyKey]
		if !ok {
			return "spread: it has no " + s.TopologyKey
		}
		count, least := w.spread(p, i)
		if count[domain]+1-least > s.MaxSkew {
			return fmt.Sprintf("spread by %s: %d with it, least %d, at most %d", s.TopologyKey, count[domain]+1, least, s.MaxSkew)
		}
	}
	return ""
}

// inDomain reports whether one of some pods, other than p, is in a domain.
func (w *World) inDomain(pods map[string]*aPod, p *aPod, key, domain string) bool {
	for _, other := range pods {
		if other != p && other.Spec.NodeName != "" && w.nodes[other.Spec.NodeName] != nil && w.nodes[other.Spec.NodeName].Metadata.Labels[key] == domain {
			return true
		}
	}
	return false
}

// spread counts the pods of a spread constraint by domain, and the least of all domains with a node that the pod's
// selector and affinity admit; taints and cordons do not count.
func (w *World) spread(p *aPod, i int) (count map[string]int, least int) {
	s := &p.Spec.TopologySpreadConstraints[i]
	count = map[string]int{}
	for domain, nodes := range w.domains[s.TopologyKey] {
		if slices.ContainsFunc(nodes, func(name string) bool { return w.admits(p, w.nodes[name], false) }) {
			count[domain] = 0
		}
	}
	for _, other := range w.selected(s.LabelSelector, []string{p.Metadata.Namespace}) {
		if n := w.nodes[other.Spec.NodeName]; n != nil && w.admits(p, n, false) {
			if domain, ok := n.Metadata.Labels[s.TopologyKey]; ok {
				count[domain]++
			}
		}
	}
	least = 1 << 30
	for _, n := range count {
		least = min(least, n)
	}
	if s.MinDomains > len(count) {
		least = 0
	}
	return count, least
}

// admits reports whether a node has the labels that a pod asks for, and no taint that it does not tolerate.
func (w *World) admits(p *aPod, n *aNode, taints bool) bool {
	id := fmt.Sprint(taints, n.Metadata.Name, p.fits)
	if known, ok := w.feasible[id]; ok {
		return known
	}
	ok := (&selector{MatchLabels: p.Spec.NodeSelector}).matches(n.Metadata.Labels)
	if terms := p.Spec.Affinity.NodeAffinity.Required.NodeSelectorTerms; len(terms) > 0 {
		any := false
		for _, t := range terms {
			of := &selector{MatchExpressions: t.MatchExpressions}
			fields := &selector{MatchExpressions: t.MatchFields}
			any = any || of.matches(n.Metadata.Labels) && fields.matches(map[string]string{"metadata.name": n.Metadata.Name})
		}
		ok = ok && any
	}
	if taints {
		for _, t := range n.Spec.Taints {
			if t.Effect == "PreferNoSchedule" {
				continue
			}
			ok = ok && slices.ContainsFunc(p.Spec.Tolerations, func(o toleration) bool {
				return (o.Effect == "" || o.Effect == t.Effect) && (o.Key == t.Key || o.Key == "" && o.Operator == "Exists") && (o.Operator == "Exists" || o.Value == t.Value)
			})
		}
	}
	w.feasible[id] = ok
	return ok
}

// full returns the resource, or the port, of which a node has too little for a pod besides its pods.
func (w *World) full(p *aPod, name string) string {
	has, err := w.quantities(w.nodes[name].Status.Allocatable)
	if err != nil {
		return err.Error()
	}
	for resource, need := range p.demand {
		if need.Sign() == 0 {
			continue
		}
		free := has[resource]
		if free == nil {
			return "it has no " + resource
		}
		free = new(big.Rat).Sub(free, need)
		for _, other := range w.at[name] {
			if q := other.demand[resource]; q != nil && other != p {
				free.Sub(free, q)
			}
		}
		if free.Sign() < 0 {
			return "too little " + resource
		}
	}
	ports := p.ports()
	for _, other := range w.at[name] {
		if len(ports) > 0 && other != p && slices.ContainsFunc(other.ports(), func(port string) bool { return slices.Contains(ports, port) }) {
			return "a port of the host is taken"
		}
	}
	return ""
}

func (p *aPod) ports() (list []string) {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				list = append(list, fmt.Sprint(port.Protocol, port.HostPort))
			}
		}
	}
	return list
}

// Replace puts pods on other nodes at once, those that a policy placed again, and returns what is wrong after it that was
// right before.
func (w *World) Replace(nodes map[string]string) (bad []string) {
	before := w.wrong()
	for key, name := range nodes {
		p := w.pods[key]
		if p == nil || w.nodes[name] == nil {
			bad = append(bad, fmt.Sprintf("%s on %s: no such pod or node", key, name))
			continue
		}
		if why := w.evictable(p, false); p.Spec.NodeName != name && why != "" {
			bad = append(bad, fmt.Sprintf("%s to %s: %s", key, name, why))
		}
		w.put(p, name)
	}
	after := w.wrong()
	for _, what := range slices.Sorted(maps.Keys(after)) {
		if !before[what] {
			bad = append(bad, what)
		}
	}
	return bad
}

// wrong returns all pods that their nodes would refuse now. The order of arrival is not known, so a spread counts
// where it is above its limit in the end.
func (w *World) wrong() map[string]bool {
	all := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		p := w.pods[key]
		name := p.Spec.NodeName
		if name == "" || w.nodes[name] == nil || p.Spec.SchedulerName == "fargate-scheduler" {
			continue
		}
		w.put(p, "")
		why := w.refused(p, name)
		w.put(p, name)
		if i := strings.Index(why, ": "); i > 0 {
			why = why[:i] // the numbers of a spread change
		}
		if why != "" {
			all[fmt.Sprintf("%s on %s: %s", key, name, why)] = true
		}
	}
	return all
}
