package agents

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

const day = 24 * time.Hour

// noOpinion is the answer of an agent without a recommendation.
func noOpinion(source, format string, args ...any) mpa.Recommendation {
	return mpa.Recommendation{Source: source, Reason: fmt.Sprintf(format, args...)}
}

// A timed value is one of a window.
type timed[T any] struct {
	time  time.Time
	value T
}

// since drops the values up to a time.
func since[T any](list []timed[T], t time.Time) []timed[T] {
	return slices.DeleteFunc(list, func(v timed[T]) bool { return !v.time.After(t) })
}

// shiftAll moves the times of a window by d.
func shiftAll[T any](list []timed[T], d time.Duration) {
	for i := range list {
		list[i].time = guard.Moved(list[i].time, d)
	}
}

type timedJSON[T any] struct {
	Time  time.Time `json:"time"`
	Value T         `json:"value"`
}

// MarshalJSON implements [json.Marshaler].
func (t timed[T]) MarshalJSON() ([]byte, error) {
	return json.Marshal(timedJSON[T]{t.time, t.value})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *timed[T]) UnmarshalJSON(data []byte) error {
	var j timedJSON[T]
	err := json.Unmarshal(data, &j)
	t.time, t.value = j.Time, j.Value
	return err
}
