package journal

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/phases"
)

// A Verdict is the result of a replay.
type Verdict struct {
	Name      string
	Object    string
	Starts    int
	Decisions int
	// Equal is the number of equal decisions; the first that differs ends the replay.
	Equal int
	// Recorded is the number of decisions by agents that this program does not have: their
	// recommendations are taken from the journal, and the guards are computed.
	Recorded int
	CutOff   bool // the last line
	First    *Difference
}

// A Difference is a decision that the replay does not give again.
type Difference struct {
	Line             int
	Logged, Computed mpa.Decision
}

// Error returns where and how the decisions differ.
func (d *Difference) Error() string {
	return fmt.Sprintf("line %d, %s: the journal has %s, computed is %s",
		d.Line, d.Logged.Time.Format(timeFormat), text(d.Logged), text(d.Computed))
}

const timeFormat = "2006-01-02 15:04:05.999 MST"

// ReplayFile replays the journal in a file with the weights that are loaded.
func ReplayFile(path string, loaded agents.Weights) (*Verdict, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return Replay(path, file, loaded)
}

// Replay computes every decision of a journal again. It fails if the journal cannot be read,
// or if the weights of a learned agent are not loaded; decisions that differ are part of the
// verdict. Errors begin with name.
func Replay(name string, in io.Reader, loaded agents.Weights) (*Verdict, error) {
	v, r, p := &Verdict{Name: name}, NewReader(name, in), replayer{weights: loaded}
	for record, err := range r.Records() {
		if err != nil {
			return nil, err
		}
		d, err := p.take(record)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, r.Line(), err)
		}
		if record.Start != nil {
			v.Starts++
			v.Object = record.Start.Object
		}
		if d == nil {
			continue
		}
		v.Decisions++
		if logged := record.Decision.Decision; text(logged) != text(*d) {
			v.First = &Difference{Line: r.Line(), Logged: logged, Computed: *d}
			return v, nil
		}
		v.Equal++
		if p.recorded != nil {
			v.Recorded++
		}
	}
	v.CutOff = r.CutOff
	return v, nil
}

// A replayer repeats the decisions of the program that wrote a journal.
type replayer struct {
	setup    *Setup
	agent    mpa.Agent
	recorded *recorded       // the agent, if this program does not have it
	limited  *agents.Limited // nil = no limit is learned
	control  *mpa.Controller
	lastID   int64 // of an action
	alarm    Alarm // the last
	weights  agents.Weights
	// lenient: an agent whose weights are not loaded counts as unknown too.
	lenient bool
}

// recorded returns the recommendations of the journal.
type recorded struct{ next mpa.Recommendation }

func (r *recorded) Recommend(*mpa.Observation) mpa.Recommendation { return r.next }

// take processes a record. For a decision, it returns the computed one.
func (p *replayer) take(r *Record) (*mpa.Decision, error) {
	switch {
	case r.Start != nil:
		return nil, p.start(r.Start)
	case r.Decision == nil:
		return nil, nil
	}
	if p.recorded != nil {
		p.recorded.next = r.Decision.Decision.Recommended
	}
	if k, ok := p.agent.(*phases.Agent); ok && p.lenient && r.Decision.Decision.Recommended.Learning != nil {
		k.Recall(r.Decision.Decision.Recommended.Learning)
	}
	d := p.control.Decide(&r.Decision.Observation)
	return &d, nil
}

func (p *replayer) start(s *Start) error {
	agent, err := s.NewAgent(p.weights)
	unknown := errors.Is(err, agents.ErrUnknown) || p.lenient && errors.Is(err, agents.ErrWeights)
	switch {
	case unknown:
		p.recorded = &recorded{}
		p.agent = p.recorded
	case err != nil:
		return fmt.Errorf("start: %w", err)
	case s.Continues && s.State == nil:
		if p.agent == nil || !p.setup.same(&s.Setup) {
			return errors.New("the start continues what is not in this file")
		}
	default:
		p.recorded, p.agent = nil, agent
		if s.State != nil {
			if err := restore(p.agent, s.State); err != nil {
				return fmt.Errorf("start.state: %w", err)
			}
		}
	}
	limits, err := s.NewLimits()
	switch {
	case err != nil:
		return fmt.Errorf("start: %w", err)
	case s.Limits != nil && limits == nil:
		return errors.New("start.limits: the setup learns none")
	case s.Limits != nil:
		if err := limits.UnmarshalJSON(s.Limits); err != nil {
			return fmt.Errorf("start.limits: %w", err)
		}
	case s.Continues && s.State == nil && p.limited != nil:
		limits = p.limited.Limits
	}
	p.setup = &s.Setup
	p.control, p.limited, err = newController(p.setup, p.agent, limits, s.Memory)
	return err
}

// newController returns a controller, and its agent with the learner of limits, if any.
func newController(s *Setup, a mpa.Agent, l *agents.Limits, m mpa.Memory) (*mpa.Controller, *agents.Limited, error) {
	var limited *agents.Limited
	if l != nil {
		limited = &agents.Limited{Agent: a, Limits: l, Asks: s.Target.Limit != mpa.Range{}}
		a = limited
	}
	c, err := mpa.NewController(s.Target, a, s.Guards)
	if err != nil {
		return nil, nil, err
	}
	return c, limited, c.Restore(m)
}
