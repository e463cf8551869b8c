package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// wantNodes is the advice if the labels and taints of nodes matter.
const wantNodes = `a trace does not have the labels and taints of nodes: add the output of "kubectl get nodes -o yaml" to the manifests`

// Add returns a snapshot's trace in which the future pods of the manifests'
// workloads arrive after everything else: all of a workload's pods except those that run or
// wait. The paths are files with any number of documents, and folders, of which all .yaml,
// .yml and .json files are read. The notes list the omissions, and the number of objects of
// each kind. An error names the file, the document and the field.
func Add(t *trace.Trace, paths []string, opt Options) (out *trace.Trace, count Count, notes []string, err error) {
	s, err := read(paths, opt, t.Instance.Groups)
	if err != nil {
		return nil, Count{}, nil, err
	}
	out, err = s.addTo(t)
	return out, s.tally.count(), s.notes, err
}

func (s *set) addTo(t *trace.Trace) (*trace.Trace, error) {
	if len(s.nodes) == 0 {
		if err := s.checkWithoutNodes(t); err != nil {
			return nil, err
		}
	}
	l, apps, err := s.translate(t)
	if err != nil {
		return nil, err
	}
	m, err := s.merge(t, l.Columns().Instance())
	if err != nil {
		return nil, err
	}
	if err := m.addTraffic(s, apps); err != nil {
		return nil, err
	}
	copied := *t
	out := &copied
	out.Instance, out.Requests, out.Events = &m.out, slices.Clone(t.Requests), slices.Clone(t.Events)
	at := 0.
	if n := len(t.Events); n > 0 {
		at = t.Events[n-1].Time
	}
	there := present(t)
	for i, w := range s.workloads {
		group := m.groups[w.name]
		left := w.pods
		if int(group) < len(t.Instance.Groups) {
			left -= there[group]
		}
		if left <= 0 {
			s.note("%s: all %d pods of %s are there", w.at, w.pods, w.name)
			continue
		}
		request := int32(len(out.Requests))
		out.Requests = append(out.Requests, trace.Request{Name: "coming/" + w.name, App: m.apps[apps[i]], Count: left})
		out.Events = append(out.Events, trace.Event{Time: at, Kind: trace.Create, Request: request, Count: left})
	}
	if len(s.rules) > 0 {
		s.note("the placement rules of the manifests are applied to their workloads; a trace has no labels of pods that stand")
	}
	return out, nil
}

// present counts the items of each group that run or wait at the end of a trace.
func present(t *trace.Trace) []int32 {
	there := make([]int32, len(t.Instance.Groups))
	add := func(request, count int32) { there[t.Instance.Apps[t.Requests[request].App].Group] += count }
	for i := range t.Initial {
		add(int32(i), t.Requests[i].Count)
	}
	for _, e := range t.Events {
		if e.Kind == trace.Create {
			add(e.Request, e.Count)
		} else {
			add(e.Request, -e.Count)
		}
	}
	return there
}

// checkWithoutNodes returns an error if the nodes that the pods may use are unknown.
func (s *set) checkWithoutNodes(t *trace.Trace) error {
	for _, w := range s.workloads {
		if field := w.choosesNodes(); field != "" {
			return fmt.Errorf("%s: %s of %s: %s", w.at, field, w.name, wantNodes)
		}
	}
	kinds := slices.DeleteFunc(slices.Clone(t.Instance.Types), func(name string) bool { return name == history.Cordoned })
	if len(kinds) > 1 && len(s.workloads) > 0 {
		return fmt.Errorf("trace %s: its nodes are of %d types (%s), and which of them the pods of the manifests may use is not known: %s",
			t.Name, len(kinds), strings.Join(kinds, ", "), wantNodes)
	}
	return nil
}

// translate enters the nodes, rules and workloads in a ledger, as the scheduler does. apps are
// the names of the workloads' apps.
func (s *set) translate(t *trace.Trace) (l *ledger.Ledger, apps []string, err error) {
	l = ledger.New()
	apply := func(e *ledger.Event) { err = errors.Join(err, l.Apply(e)) }
	apply(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: binpack.Fixed.String(), Units: podspec.Units}})
	cluster := kube.NewTranslator(s.opt.AppLabel, l, apply)
	cluster.SetRules(s.rules)
	for _, line := range t.Instance.Machines {
		node := s.nodes[line.Name]
		switch {
		case node == nil && len(s.nodes) > 0:
			return nil, nil, fmt.Errorf("trace %s: the manifests have nodes, but not %s", t.Name, line.Name)
		case node == nil:
			node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: line.Name}}
		}
		cluster.SetNode(node, nil)
	}
	for _, w := range s.workloads {
		a := cluster.EnsureApp(w.pod)
		if a == nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", w.at, w.name, err)
		}
		apps = append(apps, a.Name())
	}
	return l, apps, err
}

// A merger adds the instance of the manifests to that of a trace.
type merger struct {
	was, more *binpack.Instance
	out       binpack.Instance
	dims      []int // of more, in out
	groups    map[string]int32
	apps      map[string]int32
	types     map[[2]int32]int32 // of both instances: in out
	closed    []bool             // of the types in out: the nodes were cordoned
}

func (s *set) merge(t *trace.Trace, more *binpack.Instance) (*merger, error) {
	m := &merger{was: t.Instance, more: more, out: *t.Instance, groups: map[string]int32{}, apps: map[string]int32{}, types: map[[2]int32]int32{}}
	if m.leavesOutZones() {
		s.note("limits and rules of the manifests about zones are left out: the trace has no zones; the scheduler enforces them")
	}
	if err := m.addDimensions(s, t.Name); err != nil {
		return nil, err
	}
	m.addTypes()
	m.addGroups()
	m.addApps()
	for _, r := range more.Rules {
		r.A, r.B = m.groups[more.Groups[r.A].Name], m.groups[more.Groups[r.B].Name]
		if !slices.Contains(m.out.Rules, r) {
			m.out.Rules = append(slices.Clip(m.out.Rules), r)
		}
	}
	for _, r := range m.more.ZoneRules {
		r.A, r.B = m.groups[more.Groups[r.A].Name], m.groups[more.Groups[r.B].Name]
		if !slices.Contains(m.out.ZoneRules, r) {
			m.out.ZoneRules = append(slices.Clip(m.out.ZoneRules), r)
		}
	}
	return m, nil
}

// leavesOutZones removes the limits and rules by zone from the manifests' instance if the trace
// has no zones, in which case they would leave no machine. It reports whether there were any.
func (m *merger) leavesOutZones() bool {
	limited := func(g binpack.Group) bool { return g.Zone != binpack.ZoneLimits{} }
	if slices.ContainsFunc(m.was.Machines, func(l binpack.MachineLine) bool { return l.Zone != "" }) ||
		len(m.more.ZoneRules) == 0 && !slices.ContainsFunc(m.more.Groups, limited) {
		return false
	}
	plain := *m.more
	plain.ZoneRules, plain.Groups = nil, slices.Clone(plain.Groups)
	for g := range plain.Groups {
		plain.Groups[g].Zone = binpack.ZoneLimits{}
	}
	m.more = &plain
	return true
}

// addDimensions converts all amounts to the smaller unit of both, and adds the dimensions that
// only the manifests have: node objects contain the nodes' capacity of them.
func (m *merger) addDimensions(s *set, name string) error {
	asked := func(d int) *workload {
		for _, w := range s.workloads {
			if podspec.Demand(w.pod)[m.more.Dimensions[d].Name] > 0 {
				return w
			}
		}
		return nil
	}
	m.out.Dimensions, m.out.Machines, m.out.Apps = slices.Clone(m.was.Dimensions), slices.Clone(m.was.Machines), slices.Clone(m.was.Apps)
	for i := range m.out.Machines {
		m.out.Machines[i].Capacity = slices.Clone(m.out.Machines[i].Capacity)
	}
	for i := range m.out.Apps {
		m.out.Apps[i].Demand = slices.Clone(m.out.Apps[i].Demand)
	}
	for d, dim := range m.more.Dimensions {
		at := dimension(&m.out, dim.Name)
		m.dims = append(m.dims, at)
		if dim.Name == podspec.EgressResource && dimension(&m.out, podspec.EgressDimension) >= 0 {
			continue // addTraffic reads it
		}
		if at >= 0 {
			if factor := dim.One / m.out.Dimensions[at].One; factor > 1 {
				m.out.Dimensions[at].Unit, m.out.Dimensions[at].One = dim.Unit, dim.One
				m.scale(at, factor)
			}
			continue
		}
		w := asked(d)
		if w == nil {
			continue
		}
		if len(s.nodes) == 0 {
			return fmt.Errorf("%s: %s asks for %s, which trace %s does not have: add the output of \"kubectl get nodes -o yaml\" to the manifests", w.at, w.name, dim.Name, name)
		}
		m.dims[d] = len(m.out.Dimensions)
		m.out.Dimensions = append(m.out.Dimensions, dim)
		for i := range m.out.Machines {
			line := &m.out.Machines[i]
			line.Capacity = append(line.Capacity, podspec.Amounts(s.nodes[line.Name].Status.Allocatable)[dim.Name])
		}
		for i := range m.out.Apps {
			m.out.Apps[i].Demand = append(m.out.Apps[i].Demand, 0)
		}
	}
	return nil
}

func (m *merger) scale(d int, factor int64) {
	for i := range m.out.Machines {
		m.out.Machines[i].Capacity[d] *= factor
	}
	for i := range m.out.Apps {
		m.out.Apps[i].Demand[d] *= factor
	}
}

// addTypes splits the types of the trace by the manifests' pods that nodes refuse.
func (m *merger) addTypes() {
	of := map[string]int32{} // by node
	for _, line := range m.more.Machines {
		of[line.Name] = line.Type
	}
	m.out.Types = nil
	taken := map[string]bool{}
	for i := range m.out.Machines {
		line := &m.out.Machines[i]
		both := [2]int32{line.Type, of[line.Name]}
		to, ok := m.types[both]
		if !ok {
			to = int32(len(m.out.Types))
			name := m.was.Types[line.Type]
			for n := 2; taken[name]; n++ {
				name = fmt.Sprintf("%s-%d", m.was.Types[line.Type], n)
			}
			taken[name], m.types[both] = true, to
			m.out.Types = append(m.out.Types, name)
			m.closed = append(m.closed, m.was.Types[line.Type] == history.Cordoned)
		}
		line.Type = to
	}
	for i := range m.out.Apps {
		m.out.Apps[i].Types = m.allowed(m.out.Apps[i].Types, 0)
	}
}

// allowed returns the types of both instances whose part is in a list; nil = all.
func (m *merger) allowed(list []int32, part int) []int32 {
	if list == nil {
		return nil
	}
	types := []int32{}
	for both, to := range m.types {
		if slices.Contains(list, both[part]) {
			types = append(types, to)
		}
	}
	slices.Sort(types)
	return types
}

func (m *merger) addGroups() {
	m.out.Groups = slices.Clone(m.was.Groups)
	for g, group := range m.out.Groups {
		m.groups[group.Name] = int32(g)
	}
	for _, group := range m.more.Groups {
		g, ok := m.groups[group.Name]
		if !ok {
			m.groups[group.Name] = int32(len(m.out.Groups))
			m.out.Groups = append(m.out.Groups, group)
			continue
		}
		known := &m.out.Groups[g]
		if group.Limit > 0 && (known.Limit == 0 || group.Limit < known.Limit) {
			known.Limit = group.Limit
		}
		known.SpreadMin = max(known.SpreadMin, group.SpreadMin)
		known.Zone = known.Zone.And(group.Zone)
	}
}

// addApps adds the manifests' apps. They may not use cordoned nodes.
func (m *merger) addApps() {
	for a := range m.out.Apps {
		m.apps[m.out.Apps[a].Name] = int32(a)
	}
	for _, app := range m.more.Apps {
		if _, ok := m.apps[app.Name]; ok {
			continue
		}
		demand := make([]int64, len(m.out.Dimensions))
		for d, need := range app.Demand {
			if to := m.dims[d]; to >= 0 {
				demand[to] = need * m.out.Dimensions[to].One / m.more.Dimensions[d].One
			}
		}
		types := app.Types
		if types == nil && slices.Contains(m.closed, true) {
			for t := range m.more.Types {
				types = append(types, int32(t))
			}
		}
		types = slices.DeleteFunc(m.allowed(types, 1), func(t int32) bool { return m.closed[t] })
		soft := slices.Clone(app.Soft)
		for i := range soft {
			soft[i].Group = m.groups[m.more.Groups[soft[i].Group].Name]
		}
		m.apps[app.Name] = int32(len(m.out.Apps))
		m.out.Apps = append(m.out.Apps, binpack.App{
			Name: app.Name, Group: m.groups[m.more.Groups[app.Group].Name], Types: types, Demand: demand, Expected: -1, Lifetime: -1, Soft: soft,
		})
	}
}
