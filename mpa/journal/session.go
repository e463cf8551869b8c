package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/phases"
)

// A Session is a controller that writes each decision to a journal before it returns it.
// It serves one goroutine.
type Session struct {
	setup   Setup
	weights agents.Weights
	agent   mpa.Agent
	limited *agents.Limited // the agent, where the setup learns limits; else nil
	control *mpa.Controller
	w       *Writer
	missed  bool // the journal lacks an observation of the controller
	// Resumed: the agent continues from the journal. Broken is the reason that an existing
	// journal could not be used; it was renamed to NAME.broken.
	Resumed bool
	Broken  error
	// LastID is the largest id of an action in the file that was resumed.
	LastID int64
	// Alarm is the last one, in that file or since.
	Alarm Alarm
}

// An Alarm is a detected change of a workload.
type Alarm struct {
	Time   time.Time // zero = no alarm
	Drift  string    // the property that has changed
	Digest string    // of the weights of the agent that saw it
}

// Begin resumes the journal at path, or begins one. If the journal has the same agents for
// the same containers, their state is restored from it. The guards use known or the
// journal's memory, whichever is later. With an empty path there is no file.
func Begin(path string, o Options, s Setup, known mpa.Memory) (*Session, error) {
	w, err := Open(path, o)
	if err != nil {
		return nil, err
	}
	session := &Session{w: w, weights: o.Weights}
	w.begin = session.snapshot
	past, err := resume(path, o.Weights)
	if err == nil && past.setup != nil && past.setup.Object != s.Object {
		past, err = replayer{}, fmt.Errorf("%s is the journal of %s, not of %s", path, past.setup.Object, s.Object)
	}
	if err != nil {
		if err := session.setAside(err); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	if past.control != nil {
		session.setup, session.control, session.LastID, session.Alarm = *past.setup, past.control, past.lastID, past.alarm
		session.limited = past.limited
		if past.recorded == nil {
			session.agent = past.agent
		}
		switch m := past.control.Memory(); {
		case m.Time.After(known.Time):
			known = m
		case known.Time.Sub(m.Time) > s.Guards.MaxAge:
			known.Blind = known.Time // the agents have not seen the usage since
		}
	}
	if err := session.change(s, known); err != nil {
		return nil, errors.Join(err, session.w.Close())
	}
	return session, nil
}

// note takes over the alarm of a decision, if there is one.
func (a *Alarm) note(s *Setup, d *mpa.Decision) {
	if d.Recommended.Drift != "" {
		*a = Alarm{d.Time, d.Recommended.Drift, s.Agent.Digest}
	}
}

// resume replays the last file that is not empty. Decisions that differ, as from another
// version of the program, are no error: the agents learn from the observations.
func resume(path string, loaded agents.Weights) (p replayer, err error) {
	p = replayer{weights: loaded, lenient: true}
	if path == "" {
		return p, nil
	}
	for _, name := range slices.Backward(Files(path)) {
		file, err := os.Open(name)
		if err != nil {
			return replayer{}, err
		}
		r := NewReader(name, file)
		if err := p.learn(r); err != nil {
			return replayer{}, errors.Join(err, file.Close())
		}
		if err := file.Close(); err != nil || r.Line() > 0 {
			return p, err
		}
	}
	return p, nil
}

// learn processes all of a journal. Actions in the journal count for the guards even if this
// program would not have taken them.
func (p *replayer) learn(r *Reader) error {
	var done mpa.Memory
	for record, err := range r.Records() {
		if err != nil {
			return err
		}
		computed, err := p.take(record)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", r.name, r.Line(), err)
		}
		if record.Start != nil {
			done = mpa.Memory{}
		}
		if record.Decision != nil {
			p.lastID = max(p.lastID, record.Decision.ID)
			p.alarm.note(p.setup, &record.Decision.Decision)
		}
		if computed == nil || text(computed.Action) == text(record.Decision.Decision.Action) {
			continue
		}
		switch a := record.Decision.Decision.Action; {
		case a == nil:
		case a.Limit != 0:
			done.LimitChanges = append(done.LimitChanges, computed.Time)
		case a.Replicas != 0:
			done.ReplicaChanges = append(done.ReplicaChanges, computed.Time)
		default:
			done.RequestChanges = append(done.RequestChanges, computed.Time)
		}
	}
	if len(done.ReplicaChanges)+len(done.RequestChanges)+len(done.LimitChanges) == 0 {
		return nil
	}
	m := p.control.Memory()
	m.ReplicaChanges = append(m.ReplicaChanges, done.ReplicaChanges...)
	m.RequestChanges = append(m.RequestChanges, done.RequestChanges...)
	m.LimitChanges = append(m.LimitChanges, done.LimitChanges...)
	return p.control.Restore(m)
}

// setAside renames a file that cannot be resumed and begins an empty one.
func (s *Session) setAside(why error) error {
	s.Broken = why
	if err := s.w.Close(); err != nil {
		return err
	}
	if err := os.Rename(s.w.path, s.w.path+".broken"); err != nil {
		return err
	}
	return s.w.open()
}

// Bound sets the size at which the next file begins, as [Options] has it.
func (s *Session) Bound(maxBytes int64) { s.w.options.MaxBytes = maxBytes }

// Change continues with another setup. Agents of the same name and digest for the same
// containers keep their state, and the guards their memory.
func (s *Session) Change(setup Setup) error { return s.change(setup, s.control.Memory()) }

// Restore replaces the memory of the guards: by that before a decision which was not
// published, or by that of another program.
func (s *Session) Restore(m mpa.Memory) error { return s.change(s.setup, m) }

func (s *Session) change(setup Setup, memory mpa.Memory) error {
	start := Start{Setup: setup, Memory: memory}
	agent, limits := s.agent, s.limits()
	switch {
	case agent != nil && s.setup.same(&setup) && s.w.began:
		start.Continues = true
	default:
		var err error
		if limits, start.Limits, err = s.newLimits(&setup); err != nil {
			return err
		}
		if agent, err = setup.NewAgent(s.weights); err != nil {
			return err
		}
		if state := s.learned(&setup); state != nil && restore(agent, state) == nil {
			start.Continues, start.State = true, state
		} else if agent, err = setup.NewAgent(s.weights); err != nil { // without the state that failed to load
			return err
		} else if start.State = s.inherited(&setup, agent); start.State != nil {
			start.Continues = true
		}
	}
	control, limited, err := newController(&setup, agent, limits, memory)
	if err != nil {
		return err
	}
	if err := s.w.Start(start); err != nil {
		return err
	}
	s.limited = limited
	s.setup, s.agent, s.control, s.Resumed, s.missed = setup, agent, control, start.Continues, false
	return nil
}

// limits returns the learner of a pod's limit; nil = no learner.
func (s *Session) limits() *agents.Limits {
	if s.limited == nil {
		return nil
	}
	return s.limited.Limits
}

// newLimits makes the learner of a pod's limit for another setup. If it has the same settings,
// containers and promise, the present state is kept, and returned.
func (s *Session) newLimits(setup *Setup) (*agents.Limits, json.RawMessage, error) {
	next, err := setup.NewLimits()
	was := s.limits()
	if err != nil || next == nil || was == nil || *s.setup.Concurrency != *setup.Concurrency || s.setup.Target.SLO != setup.Target.SLO || !s.sizes(setup) {
		return next, nil, err
	}
	state, err := was.MarshalJSON()
	if err != nil {
		return nil, nil, err
	}
	return next, state, next.UnmarshalJSON(state)
}

// learned returns the state that the present agent can pass to one of another setup; nil = no
// state.
func (s *Session) learned(setup *Setup) json.RawMessage {
	fallback := func(s *Setup) mpa.Spec {
		if s.Fallback == nil {
			return mpa.Spec{}
		}
		return s.Fallback.Agent
	}
	if s.agent == nil || s.setup.Agent != setup.Agent || fallback(&s.setup) != fallback(setup) || !s.sizes(setup) {
		return nil
	}
	state, err := keep(s.agent)
	if err != nil {
		return nil
	}
	return state
}

// sizes reports whether another setup has the same containers.
func (s *Session) sizes(setup *Setup) bool {
	return slices.EqualFunc(s.setup.Target.Containers, setup.Target.Containers, func(a, b mpa.ContainerSpec) bool { return a.Name == b.Name })
}

// inherited gives an agent the memory of the rules if both setups have the same ones, with or
// without a candidate next to them. It returns the agent's state; nil = it has no memory.
func (s *Session) inherited(setup *Setup, agent mpa.Agent) json.RawMessage {
	if s.agent == nil || !s.sizes(setup) {
		return nil
	}
	from, was := rulesIn(&s.setup, s.agent)
	to, is := rulesIn(setup, agent)
	if from == nil || to == nil || was != is {
		return nil
	}
	state, err := keep(from)
	if err != nil || restore(to, state) != nil {
		return nil
	}
	if state, err = keep(agent); err != nil {
		return nil
	}
	return state
}

// rulesIn returns the rules next to a candidate in phases, or an agent that is alone.
func rulesIn(s *Setup, a mpa.Agent) (mpa.Agent, mpa.Spec) {
	if k, ok := a.(*phases.Agent); ok {
		spec, _ := s.rules()
		return k.Rules(), spec
	}
	if s.Fallback != nil {
		return nil, mpa.Spec{}
	}
	return a, s.Agent
}

// Place puts a candidate in its phases where another process left it.
func (s *Session) Place(p phases.Progress) error {
	k, ok := s.agent.(*phases.Agent)
	if !ok {
		return fmt.Errorf("%s has no phases", s.setup.Agent)
	}
	if err := k.Place(p); err != nil {
		return err
	}
	return s.restart()
}

// restart writes a start that continues from here.
func (s *Session) restart() error {
	start, err := s.snapshot()
	if err != nil {
		return err
	}
	return s.w.Start(*start)
}

// RememberWorse adds limits that another process took back to the learner of a pod's limit.
func (s *Session) RememberWorse(worse []agents.WorseLimit) error {
	s.limited.Limits.Remember(worse)
	return s.restart()
}

// RememberTemplate sets the template that sizes by use began with, as another process had it.
func (s *Session) RememberTemplate(template []mpa.Resources, generation int64) error {
	u, ok := s.agent.(*agents.Usage)
	if !ok {
		return fmt.Errorf("%s has no template", s.setup.Agent)
	}
	u.Remember(template, generation)
	return s.restart()
}

func keep(a mpa.Agent) (json.RawMessage, error) {
	k, ok := a.(mpa.Stateful)
	if !ok {
		return nil, fmt.Errorf("%T cannot write its state", a)
	}
	return k.MarshalJSON()
}

func restore(a mpa.Agent, state json.RawMessage) error {
	k, ok := a.(mpa.Stateful)
	if !ok {
		return fmt.Errorf("%T cannot write its state", a)
	}
	return k.UnmarshalJSON(state)
}

// snapshot returns a start that continues from here in an empty file. An agent that cannot
// write its state is replaced by one without memory.
func (s *Session) snapshot() (*Start, error) {
	start := &Start{Setup: s.setup, Memory: s.control.Memory(), Continues: true}
	if l := s.limits(); l != nil {
		var err error
		if start.Limits, err = l.MarshalJSON(); err != nil {
			return nil, err
		}
	}
	state, err := keep(s.agent)
	if err == nil {
		start.State = state
		return start, nil
	}
	start.Continues = false
	if s.agent, err = s.setup.NewAgent(s.weights); err != nil {
		return nil, err
	}
	s.control, s.limited, err = newController(&s.setup, s.agent, s.limits(), start.Memory)
	return start, err
}

// Decide returns the decision on an observation. After an error the decision is not in the
// journal and must not be carried out. id is that of an action.
func (s *Session) Decide(o *mpa.Observation, id int64) (mpa.Decision, error) {
	if s.missed {
		if err := s.restart(); err != nil {
			return mpa.Decision{Time: o.Time, Next: mpa.State{Replicas: o.Replicas}, Reason: "the journal cannot be written"}, err
		}
		s.missed = false
	}
	d := s.control.Decide(o)
	s.Alarm.note(&s.setup, &d)
	if d.Action == nil {
		id = 0
	}
	if err := s.w.Decision(o, &d, id); err != nil {
		s.missed = true
		return d, err
	}
	return d, nil
}

// Outcome writes the result of an action.
func (s *Session) Outcome(o Outcome) error { return s.w.Outcome(o) }

// Memory returns the guards' state.
func (s *Session) Memory() mpa.Memory { return s.control.Memory() }

// Agent returns the present agent.
func (s *Session) Agent() mpa.Agent { return s.agent }

// Limited returns the present agent with the learner of a pod's limit; nil = no learner.
func (s *Session) Limited() *agents.Limited { return s.limited }

// Setup returns the present setup.
func (s *Session) Setup() Setup { return s.setup }

// Close closes the journal.
func (s *Session) Close() error { return s.w.Close() }
