package agents

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// A Fallback is two agents: the second recommends once the first has had no opinion for
// some time. Both see all observations, so the second has learned before it takes over.
type Fallback struct {
	First, Second mpa.Agent
	After         time.Duration
	answered      time.Time // when First last had an opinion, or was first asked
	second        bool
}

// Active reports whether the second agent gave the last answer.
func (f *Fallback) Active() bool { return f.second }

// Recommend implements [mpa.Agent]. The source is that of the agent that answers.
func (f *Fallback) Recommend(o *mpa.Observation) mpa.Recommendation {
	r, other := f.First.Recommend(o), f.Second.Recommend(o)
	if f.answered.IsZero() || r.Replicas != 0 || r.Containers != nil {
		f.answered = o.Time
	}
	silent := o.Time.Sub(f.answered)
	if f.second = silent > 0 && silent >= f.After; f.second {
		other.Reason = fmt.Sprintf("%s has had no opinion for %v (%s): %s", r.Source, silent, r.Reason, other.Reason)
		other.Drift = r.Drift
		return other
	}
	return r
}

// Shift implements [mpa.Shifter].
func (f *Fallback) Shift(d time.Duration) {
	f.answered = guard.Moved(f.answered, d)
	mpa.Shift(f.First, d)
	mpa.Shift(f.Second, d)
}

type fallbackJSON struct {
	First    mpa.Agent `json:"first"`
	Second   mpa.Agent `json:"second"`
	Answered time.Time `json:"spoke,omitzero"`
}

// MarshalJSON implements [mpa.Stateful].
func (f *Fallback) MarshalJSON() ([]byte, error) {
	for _, a := range []mpa.Agent{f.First, f.Second} {
		if _, ok := a.(mpa.Stateful); !ok {
			return nil, fmt.Errorf("%T cannot write its state", a)
		}
	}
	return json.Marshal(fallbackJSON{f.First, f.Second, f.answered})
}

// UnmarshalJSON implements [mpa.Stateful].
func (f *Fallback) UnmarshalJSON(data []byte) error {
	j := fallbackJSON{First: f.First, Second: f.Second}
	err := json.Unmarshal(data, &j)
	f.answered = j.Answered
	return err
}
