package oracle

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
	"github.com/sigma-scheduler/sigma/plugins/snapshot"
)

const appLabel = "app"

// A model is Sigma's state of a cluster, as explain, the scheduler and make-room have it. What it answers is compared with
// [snapshot.Picture.Ask], which builds a state for each question.
type model struct {
	ledger *ledger.Ledger
	kube   *kube.Translator
	nodes  map[string]*v1.Node
	on     map[string][]*v1.Pod
	others *podspec.Others
	failed error
}

func pictureOf(c *cluster) *snapshot.Picture {
	p := &snapshot.Picture{Nodes: slices.Clone(c.Nodes), Pods: slices.Clone(c.Pods), Declared: &kube.Declarations{}}
	slices.SortFunc(p.Nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, d := range c.Drivers {
		p.Served = append(p.Served, *d.Spec.ExtendedResourceName)
	}
	return p
}

func newModel(c *cluster) (*model, error) {
	m := &model{ledger: ledger.New(), nodes: map[string]*v1.Node{}, on: c.on(), others: podspec.NewOthers(c.Pods, c.Nodes, appLabel)}
	take := func(e *ledger.Event) {
		if err := m.ledger.Apply(e); err != nil && m.failed == nil {
			m.failed = fmt.Errorf("%s %s%s%s: %w", e.Kind, e.Node, e.App, e.Pod, err)
		}
	}
	take(&ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{
		Version: ledger.Version, Fleet: binpack.Fixed.String(), Units: podspec.Units, MaxShareOfApp: ledger.MaxShareOfApp,
	}})
	m.kube = kube.NewTranslator(appLabel, m.ledger, take)
	p := pictureOf(c)
	m.kube.SetServed(p.Served)
	for _, n := range p.Nodes {
		m.nodes[n.Name] = n
		m.kube.SetNode(n, m.on[n.Name])
	}
	m.kube.Forecast(p.Declared, 0)
	return m, m.failed
}

// ask returns why the model refuses a pod, by node, with the pod itself taken away.
func (m *model) ask(p *v1.Pod) (map[string]string, error) {
	if n := m.nodes[p.Spec.NodeName]; n != nil {
		m.kube.SetNode(n, slices.DeleteFunc(slices.Clone(m.on[n.Name]), func(o *v1.Pod) bool { return o == p }))
		defer m.kube.SetNode(n, m.on[n.Name])
	}
	app := m.kube.Arrive(p)
	defer m.kube.Leave(p)
	if m.failed != nil {
		return nil, m.failed
	}
	refused := map[string]string{}
	state, a := m.ledger.Columns(), m.ledger.AppIndex(app.Name())
	for name := range m.nodes {
		i := m.ledger.MachineIndex(name)
		if i < 0 {
			refused[name] = "cordoned"
			continue
		}
		if why := state.Why(a, i); why.Kind != binpack.Accepted {
			refused[name] = reasonText(state.Instance(), why)
		}
	}
	return refused, m.failed
}

// reasonText names what in a model refuses an item.
func reasonText(in *binpack.Instance, why binpack.Reason) string {
	text := map[binpack.ReasonKind]string{
		binpack.TooSmall: "room", binpack.NoDevice: "devices", binpack.WrongType: "selector", binpack.LimitReached: "limit",
		binpack.RuleForbids: "pair", binpack.SpreadWanted: "spread", binpack.NoZone: "no zone", binpack.Uneven: "skew",
	}[why.Kind]
	if why.Kind == binpack.TooSmall {
		text += " of " + in.Dimensions[why.Index].Name
	}
	if why.Zone {
		text += " by zone"
	}
	return text
}

// aPod is the name of one pod in a reason.
var aPod = regexp.MustCompile(`(of|selects|counts) [a-z0-9-]+/[A-Za-z0-9/-]+`)

// unknown returns why a pod is none that Sigma speaks for; "" = it would move it, or takes it as fully known while it waits.
func (m *model) unknown(p *v1.Pod) string {
	switch {
	case p.Spec.SchedulerName != v1.DefaultSchedulerName:
		return "of another scheduler"
	case p.Spec.NodeName != "":
		return aPod.ReplaceAllString(strings.TrimPrefix(podspec.Movable(p, 0, m.others), "where it may go depends on "), "$1 another")
	case len(p.Spec.SchedulingGates) > 0:
		return "gated"
	case p.DeletionTimestamp != nil || !podspec.Moves(p) || podspec.Ended(p):
		return "does not wait for a scheduler"
	}
	if what := m.others.Unknown(p); what != "" {
		return aPod.ReplaceAllString(what, "$1 another")
	}
	if left := m.kube.IgnoredResources(p); len(left) > 0 {
		return "devices of a driver"
	}
	return ""
}
