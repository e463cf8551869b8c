package engine

import (
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// restartEvery is the least time between two restarts: the cause may persist.
const restartEvery = 30 * time.Second

// roles are the roles that policies are loaded for.
var roles = []ledger.Role{ledger.Primary, ledger.Canary}

// A state is the ledger, the translator whose events it applies, and the decision log
// that they are written to.
type state struct {
	start   ledger.Start
	now     func() time.Time
	metrics *profileMetrics
	ledger  *ledger.Ledger
	cluster *kube.Translator
	log     decisionLog
	fresh   bool // no node has been read yet

	broken      error     // an event that the ledger refused: a bug
	restartedAt time.Time // after that event; zero = never

	declared   *kube.Declarations // the last one; a restart forecasts from it
	forecastAt time.Time          // time of declared; zero = never
	faults     []kube.Fault       // in its annotations
}

func newState(opt *Options, measured *profileMetrics) (*state, error) {
	s := &state{
		start: ledger.Start{Version: ledger.Version, Profile: opt.Profile, Fleet: opt.Fleet, Units: podspec.Units, MaxShareOfApp: ledger.MaxShareOfApp},
		now:   opt.Now, metrics: measured, ledger: ledger.New(),
	}
	s.cluster = kube.NewTranslator(opt.AppLabel, s.ledger, s.apply)
	var err error
	if s.cluster.Prices, err = kube.ReadPrices(opt.Prices); err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	s.start.Currency = s.cluster.Prices.Unit()
	file, err := openLog(opt)
	if err != nil {
		return nil, fmt.Errorf("decisionLog: %w", err)
	}
	s.log = decisionLog{file: file, now: opt.Now, describe: s.cluster.Describe, failures: measured.logErrors, lost: measured.logLost}
	s.begin()
	return s, s.broken
}

// begin starts with an empty cluster.
func (s *state) begin() {
	s.fresh = true
	start := s.start
	s.apply(&ledger.Event{Kind: ledger.KindStart, Start: &start})
}

func (s *state) fleet() binpack.Fleet {
	if s.start.Fleet == binpack.Fixed.String() {
		return binpack.Fixed
	}
	return binpack.Open
}

// restartIfBroken rebuilds the state if the ledger refused an event. That is a
// bug, and counted, but later decisions are right.
func (s *state) restartIfBroken() bool {
	if s.broken == nil || !s.restartedAt.IsZero() && s.now().Sub(s.restartedAt) < restartEvery {
		return false
	}
	klog.ErrorS(s.broken, "The packing state could not follow the cluster and is built again", "profile", s.start.Profile)
	s.metrics.restarts.Inc()
	s.broken, s.restartedAt = nil, s.now()
	var policies []*ledger.Event
	for _, role := range roles {
		if object, _ := s.ledger.Policy(role); object != nil {
			policies = append(policies, &ledger.Event{Kind: ledger.KindPolicy, Role: role, Policy: object, Outside: ledger.ClocklessPolicy(object, s.fleet())})
		}
	}
	rules, served, plans := s.cluster.Rules(), s.cluster.Served(), s.cluster.Plans()
	s.begin()
	for _, p := range policies {
		s.apply(p)
	}
	s.cluster.SetRules(rules)
	s.cluster.SetServed(served)
	s.cluster.SetPlans(plans, seconds(s.now()))
	if s.declared != nil { // at the age it has
		s.cluster.Forecast(s.declared, 0)
	}
	return true
}

// apply applies an event to the ledger and adds it to the decision log. An event that
// the ledger refuses changes nothing and is left out of the log, so that decisions
// until the restart can be recomputed too.
func (s *state) apply(ev *ledger.Event) {
	if err := s.ledger.Apply(ev); err != nil {
		if s.broken == nil {
			s.broken = fmt.Errorf("%s node=%q app=%q pod=%q: %w", ev.Kind, ev.Node, ev.App, ev.Pod, err)
		}
		return
	}
	s.log.add(ev)
}

// enter applies the events since the last decision.
func (s *state) enter(m mail) {
	for _, pod := range m.failed {
		s.cluster.Undo(pod)
	}
	for _, pod := range m.deleted {
		s.cluster.Leave(pod)
	}
	for _, chain := range m.ended {
		s.cluster.Release(chain, seconds(s.now()))
	}
	for _, role := range roles {
		object, ok := m.policies[role]
		if !ok {
			continue
		}
		ev := &ledger.Event{Kind: ledger.KindPolicy, Role: role}
		if object != nil { // provenance has no effect, and is long; repair has none on decisions
			plain := *object
			plain.Spec.Provenance, plain.Spec.Repair, plain.Status = nil, nil, nil
			ev.Policy, ev.Outside = &plain, ledger.ClocklessPolicy(object, s.fleet())
		}
		s.apply(ev)
	}
	if m.newRules {
		s.cluster.SetRules(m.rules)
	}
	if m.newPlans {
		s.cluster.SetPlans(m.plans, seconds(s.now()))
	}
	if m.served != nil {
		s.cluster.SetServed(m.served)
	}
	if m.declared != nil {
		since := time.Duration(0)
		if !s.forecastAt.IsZero() {
			since = m.declaredAt.Sub(s.forecastAt)
		}
		s.declared, s.forecastAt = m.declared, m.declaredAt
		s.faults = s.cluster.Forecast(m.declared, since)
	}
	s.cluster.ForecastNew(&m.fresh)
}
