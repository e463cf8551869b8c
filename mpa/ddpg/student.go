package ddpg

import (
	"fmt"

	"github.com/sigma-scheduler/sigma/internal/learn/rl"
	"github.com/sigma-scheduler/sigma/mpa"
)

// A Student is an agent of one episode that learns: each [Step] is a transition, and each
// transition one update. It acts by itself, within a band around rules, or it watches.
type Student struct {
	Target  mpa.Target
	Learner *rl.DDPG
	Reward  Reward
	// Rules, if set, bound the actions. If Watch is set as well, the rules act and the
	// student imitates them.
	Rules mpa.Agent
	Watch bool
	// Constants follow the state, as in [New].
	Constants []float32
	// Seen, if set, is called with each transition.
	Seen func(t *rl.Transition)

	s       memory
	edges   edges
	held    *rl.Transition // complete; kept until it is clear whether it was the last
	pending *rl.Transition // without its result
	failed  error
}

// Recommend implements [mpa.Agent].
func (a *Student) Recommend(o *mpa.Observation) mpa.Recommendation {
	var rules mpa.Recommendation
	if a.Rules != nil {
		rules = a.Rules.Recommend(o)
	}
	v, why := a.s.look(o, &a.Target)
	if why != "" || a.failed != nil {
		return rules // empty without rules
	}
	if v != nil {
		a.step(v, o, rules)
	}
	switch {
	case a.Watch:
		return rules
	case a.Rules != nil:
		return a.edges.bound(a.s.repeat(), rules, o, &a.Target)
	}
	return a.s.repeat()
}

// step ends a transition and begins the next.
func (a *Student) step(v *view, o *mpa.Observation, rules mpa.Recommendation) {
	state := make([]float32, StateSize+len(a.Constants))
	a.s.see(v, state)
	copy(state[StateSize:], a.Constants)
	if reward, ok := a.Reward.of(v, &a.Target, &a.s.First); a.pending != nil && ok {
		a.pending.Next, a.pending.Reward = state, float32(reward)
		a.learn(a.pending)
	}
	action := make([]float32, ActionSize)
	if a.Watch {
		rules = complete(rules, o, &a.Target)
		a.s.First.action(&rules, action)
	} else {
		a.Learner.Explore(state, action)
		a.s.Last = a.s.First.size(action, &a.Target)
		a.s.Last.Source, a.s.Last.Reason = Source, "the student's action"
		if a.Rules != nil {
			// The student learns from the bounded action.
			done := a.edges.bound(a.s.repeat(), rules, o, &a.Target)
			a.s.First.action(&done, action)
		}
	}
	a.pending = &rl.Transition{State: state, Action: action, Demonstrated: a.Watch}
}

// learn takes a complete transition, and learns from the one before.
func (a *Student) learn(t *rl.Transition) {
	a.give(rl.Continues)
	a.held = t
}

func (a *Student) give(end rl.End) {
	if a.held == nil || a.failed != nil {
		return
	}
	t := *a.held
	t.End, a.held = end, nil
	if a.Seen != nil {
		a.Seen(&t)
	}
	if a.failed = a.Learner.Observe(t); a.failed == nil {
		_, a.failed = a.Learner.Update()
	}
}

// End ends the episode, by its time limit. It returns an error when the training has
// diverged.
func (a *Student) End() error {
	a.give(rl.TimeLimit)
	if a.failed != nil {
		return fmt.Errorf("ddpg: %w", a.failed)
	}
	return nil
}

// Tuned returns the numbers that DDPG learns with here where it is not the paper's: TD3 of
// 2 × 64, returns of three steps, and imitation of the actions of rules.
func Tuned(constants int, seed uint64) rl.Config {
	c := rl.AWARE(StateSize+constants, ActionSize, seed)
	c.Hidden, c.Twin, c.Steps, c.Discount = []int{64, 64}, true, 3, .95
	c.Noise.Dt = .03 // moves by .035 a step, where the paper's .01 moves by .02
	c.Imitation = 20
	c.Capacity = 20_000
	return c
}
