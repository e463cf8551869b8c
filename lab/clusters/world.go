package clusters

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// A World is a dump with the pods on its nodes, for checks of plans by the rules of kube-scheduler's filters and of
// evictions, read anew and slowly.
type World struct {
	nodes   map[string]*aNode
	pods    map[string]*aPod // by namespace/name
	at      map[string]map[string]*aPod
	budgets []*aBudget
	domains map[string]map[string][]string // nodes by topology key and value

	matches  map[string]map[string]*aPod // by selector
	terms    map[string]*antiTerm
	feasible map[string]bool
	amounts  map[string]*big.Rat
}

type aNode struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		Unschedulable bool
		Taints        []struct{ Key, Value, Effect string }
	}
	Status struct {
		Allocatable map[string]string
		Conditions  []struct{ Type, Status string }
	}
}

type aPod struct {
	Metadata struct {
		Namespace, Name   string
		Labels            map[string]string
		Annotations       map[string]string
		DeletionTimestamp string
		OwnerReferences   []anOwner
	}
	Spec struct {
		NodeName       string
		SchedulerName  string
		Containers     []aContainer
		InitContainers []aContainer
		Overhead       map[string]string
		NodeSelector   map[string]string
		Tolerations    []toleration
		Affinity       struct {
			NodeAffinity struct {
				Required struct {
					NodeSelectorTerms []struct{ MatchExpressions, MatchFields []requirement }
				} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
			}
			PodAntiAffinity struct {
				Required []aTerm `json:"requiredDuringSchedulingIgnoredDuringExecution"`
			}
		}
		TopologySpreadConstraints []struct {
			MaxSkew           int
			TopologyKey       string
			WhenUnsatisfiable string
			LabelSelector     *selector
			MinDomains        int
		}
		Volumes []map[string]json.RawMessage
	}
	Status struct{ Phase string }
	demand map[string]*big.Rat
	key    string
	fits   string // of its node selector, affinity and tolerations
}

type anOwner struct {
	Kind       string
	Controller bool
}

type aContainer struct {
	RestartPolicy string
	Resources     struct{ Requests map[string]string }
	Ports         []struct {
		HostPort int
		Protocol string
	}
}

type toleration struct{ Key, Operator, Value, Effect string }

type requirement struct {
	Key, Operator string
	Values        []string
}

type selector struct {
	MatchLabels      map[string]string
	MatchExpressions []requirement
}

type aTerm struct {
	LabelSelector *selector
	TopologyKey   string
	Namespaces    []string
}

// An antiTerm is a term of anti-affinity with the pods that have it, and those that it is about.
type antiTerm struct {
	key           string
	have, against map[string]*aPod
}

type aBudget struct {
	Metadata struct{ Namespace, Name string }
	Spec     struct{ Selector *selector }
	Status   struct{ DisruptionsAllowed, ExpectedPods int }
}

// Read reads a dump.
func Read(in io.Reader) (*World, error) {
	w := &World{
		nodes: map[string]*aNode{}, pods: map[string]*aPod{}, at: map[string]map[string]*aPod{}, domains: map[string]map[string][]string{},
		matches: map[string]map[string]*aPod{}, terms: map[string]*antiTerm{}, feasible: map[string]bool{}, amounts: map[string]*big.Rat{},
	}
	for decoder := json.NewDecoder(in); ; {
		var list struct{ Items []json.RawMessage }
		if err := decoder.Decode(&list); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		for _, raw := range list.Items {
			if err := w.add(raw); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		for key, value := range w.nodes[name].Metadata.Labels {
			if w.domains[key] == nil {
				w.domains[key] = map[string][]string{}
			}
			w.domains[key][value] = append(w.domains[key][value], name)
		}
	}
	for _, p := range w.pods {
		for _, t := range p.Spec.Affinity.PodAntiAffinity.Required {
			spaces := t.Namespaces
			if len(spaces) == 0 {
				spaces = []string{p.Metadata.Namespace}
			}
			of := w.selected(t.LabelSelector, spaces)
			id := text(t) + text(spaces)
			if w.terms[id] == nil {
				w.terms[id] = &antiTerm{key: t.TopologyKey, have: map[string]*aPod{}, against: of}
			}
			w.terms[id].have[p.key] = p
		}
	}
	return w, nil
}

func (w *World) add(raw json.RawMessage) error {
	var is struct{ Kind string }
	if err := json.Unmarshal(raw, &is); err != nil {
		return err
	}
	switch is.Kind {
	case "Node":
		n := &aNode{}
		if err := json.Unmarshal(raw, n); err != nil {
			return err
		}
		w.nodes[n.Metadata.Name] = n
	case "PodDisruptionBudget":
		b := &aBudget{}
		if err := json.Unmarshal(raw, b); err != nil {
			return err
		}
		w.budgets = append(w.budgets, b)
	case "Pod":
		p := &aPod{}
		if err := json.Unmarshal(raw, p); err != nil {
			return err
		}
		if p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
			return nil
		}
		p.key = p.Metadata.Namespace + "/" + p.Metadata.Name
		p.fits = text(p.Spec.NodeSelector) + text(p.Spec.Affinity.NodeAffinity) + text(p.Spec.Tolerations)
		if err := w.setDemand(p); err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
		w.pods[p.key] = p
		w.put(p, p.Spec.NodeName)
	}
	return nil
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// setDemand sums what a pod requests: its containers and sidecars, or an init container where that is more.
func (w *World) setDemand(p *aPod) error {
	sum, most := map[string]*big.Rat{"pods": big.NewRat(1, 1)}, map[string]*big.Rat{}
	plus := func(to, amounts map[string]*big.Rat) {
		for name, q := range amounts {
			if to[name] == nil {
				to[name] = new(big.Rat)
			}
			to[name] = new(big.Rat).Add(to[name], q)
		}
	}
	for _, c := range p.Spec.InitContainers {
		needs, err := w.quantities(c.Resources.Requests)
		if err != nil {
			return err
		}
		if c.RestartPolicy == "Always" {
			plus(sum, needs)
			continue
		}
		for name, q := range needs {
			if most[name] == nil || most[name].Cmp(q) < 0 {
				most[name] = q
			}
		}
	}
	for _, c := range p.Spec.Containers {
		needs, err := w.quantities(c.Resources.Requests)
		if err != nil {
			return err
		}
		plus(sum, needs)
	}
	for name, q := range most {
		if sum[name] == nil || sum[name].Cmp(q) < 0 {
			sum[name] = q
		}
	}
	over, err := w.quantities(p.Spec.Overhead)
	plus(sum, over)
	p.demand = sum
	return err
}

func (w *World) quantities(of map[string]string) (map[string]*big.Rat, error) {
	out := map[string]*big.Rat{}
	for name, s := range of {
		q, known := w.amounts[s]
		if !known {
			var err error
			if q, err = quantity(s); err != nil {
				return nil, err
			}
			w.amounts[s] = q
		}
		out[name] = q
	}
	return out, nil
}

// quantity reads a number with a suffix.
func quantity(s string) (*big.Rat, error) {
	number := strings.TrimRight(s, "numkKMGTPEi")
	q, ok := new(big.Rat).SetString(number)
	if !ok {
		return nil, fmt.Errorf("quantity %q", s)
	}
	unit := s[len(number):]
	base, at := int64(1000), strings.Index("kMGTPE", strings.TrimSuffix(unit, "i"))
	switch {
	case unit == "":
		return q, nil
	case strings.HasSuffix(unit, "i"):
		base, at = 1024, strings.Index("KMGTPE", strings.TrimSuffix(unit, "i"))
	case unit == "m":
		return q.Quo(q, big.NewRat(1000, 1)), nil
	}
	if at < 0 {
		return nil, fmt.Errorf("quantity %q", s)
	}
	for range at + 1 {
		q.Mul(q, big.NewRat(base, 1))
	}
	return q, nil
}

// put moves a pod to a node; "" = none.
func (w *World) put(p *aPod, node string) {
	delete(w.at[p.Spec.NodeName], p.key)
	p.Spec.NodeName = node
	if node == "" {
		return
	}
	if w.at[node] == nil {
		w.at[node] = map[string]*aPod{}
	}
	w.at[node][p.key] = p
}

func (s *selector) matches(labels map[string]string) bool {
	if s == nil {
		return false
	}
	for key, value := range s.MatchLabels {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return !slices.ContainsFunc(s.MatchExpressions, func(r requirement) bool { return !r.holds(labels) })
}

func (r requirement) holds(labels map[string]string) bool {
	value, has := labels[r.Key]
	switch r.Operator {
	case "In":
		return has && slices.Contains(r.Values, value)
	case "NotIn":
		return !has || !slices.Contains(r.Values, value)
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	case "Gt", "Lt":
		have, err := strconv.Atoi(value)
		want, wrong := strconv.Atoi(r.Values[0])
		return err == nil && wrong == nil && (r.Operator == "Gt" && have > want || r.Operator == "Lt" && have < want)
	}
	return false
}

// selected are the pods of some namespaces that a selector matches.
func (w *World) selected(s *selector, namespaces []string) map[string]*aPod {
	id := text(s) + text(namespaces)
	if w.matches[id] == nil {
		w.matches[id] = map[string]*aPod{}
		for key, p := range w.pods {
			if p.Metadata.DeletionTimestamp == "" && slices.Contains(namespaces, p.Metadata.Namespace) && s.matches(p.Metadata.Labels) {
				w.matches[id][key] = p
			}
		}
	}
	return w.matches[id]
}
