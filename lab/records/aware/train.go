package aware

import (
	"context"

	"github.com/sigma-scheduler/sigma/internal/learn/rl"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/ddpg"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// A way of training.
type way struct {
	name      string
	reward    ddpg.Reward
	tuned     bool // TD3 and its numbers in place of the paper's DDPG
	bootstrap bool // rules first, a gate, and a band around the rules
}

var ways = []way{
	{name: "`ddpg` as in the paper", reward: ddpg.Paper},
	{name: "`ddpg`, reward by promise", reward: ddpg.Promise, tuned: true},
	{name: "`ddpg` bootstrapped", reward: ddpg.Promise, tuned: true, bootstrap: true},
}

// Phases of a bootstrapped training, as those of a live one: the rules act, or the student
// does within the band.
const (
	watchLeast = 10   // episodes before the gate is first asked
	judged     = 5    // episodes that the gate looks at
	gateIn     = 1.02 // × the rules' objective, from which on the student acts
	gateOut    = 1.1  // above which the rules act again
	gateNoise  = .01  // of what the promise forgives, that counts as no difference
)

// A training is one learner on one application.
type training struct {
	way       way
	app       *application
	learner   *rl.DDPG
	constants []float32
	acts      bool
	since     int          // first episode of the present phase
	runs      []sim.Result // by episode
	switches  int
}

func (w way) config(constants int, seed uint64) rl.Config {
	if w.tuned {
		return ddpg.Tuned(constants, seed)
	}
	return rl.AWARE(ddpg.StateSize+constants, ddpg.ActionSize, seed)
}

func newTraining(w way, app *application, seed uint64) (*training, error) {
	learner, err := rl.New(w.config(0, seed))
	return &training{way: w, app: app, learner: learner, acts: !w.bootstrap}, err
}

// next trains for an episode.
func (t *training) next(ctx context.Context) error {
	k := len(t.runs)
	if _, err := t.app.ruled(ctx, k); err != nil {
		return err
	}
	if t.way.bootstrap {
		if err := t.gate(ctx, k); err != nil {
			return err
		}
	}
	target := t.app.scenario.App.Target
	student := &ddpg.Student{Target: target, Learner: t.learner, Reward: t.way.reward, Constants: t.constants, Watch: !t.acts}
	if t.way.bootstrap {
		student.Rules = agents.NewPair(target)
	}
	r, err := t.app.run(ctx, k, student)
	if err != nil {
		return err
	}
	t.runs = append(t.runs, r)
	return student.End()
}

// gate moves between the phases. While the rules act, it replays the last episodes with the
// student in the simulator, every few episodes; while the student acts, it looks at what
// came of that, after each.
func (t *training) gate(ctx context.Context, k int) error {
	if k < watchLeast || !t.acts && k%judged != 0 {
		return nil
	}
	from := k - judged
	if t.acts {
		from = max(from, t.since)
	}
	var objective, broken, theirs float64
	for i := from; i < k; i++ {
		r := &t.runs[i]
		if !t.acts {
			replayed, err := t.app.run(ctx, i, t.agent())
			if err != nil {
				return err
			}
			r = &replayed
		}
		share := 1 / float64(k-from)
		objective += share * t.app.objective(r, &t.app.rules[i])
		broken += share * t.app.used(r)
		theirs += share * t.app.used(&t.app.rules[i])
	}
	limit := gateIn
	if t.acts {
		limit = gateOut
	}
	if good := objective <= limit && broken <= limit*theirs+gateNoise; good != t.acts && k > t.since {
		t.acts, t.since = good, k
		t.switches++
	}
	return nil
}

// agent is what has been learned, without exploration.
func (t *training) agent() mpa.Agent {
	target := t.app.scenario.App.Target
	network := ddpg.New(target, t.learner.Actor().Clone(), t.constants...)
	if t.way.bootstrap {
		return ddpg.NewBand(target, network, agents.NewPair(target))
	}
	return network
}
