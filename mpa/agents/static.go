package agents

import "github.com/sigma-scheduler/sigma/mpa"

// Static leaves everything as it is.
type Static struct{}

// Recommend implements [mpa.Agent].
func (Static) Recommend(*mpa.Observation) mpa.Recommendation {
	return mpa.Recommendation{Source: "static", Reason: "static sizes are never changed"}
}

// MarshalJSON implements [mpa.Stateful]: the state is empty.
func (Static) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// UnmarshalJSON implements [mpa.Stateful].
func (Static) UnmarshalJSON([]byte) error { return nil }
