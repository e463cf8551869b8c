package drift

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Thresholds is AWARE's rule: retrain when, of the last rewards, the mean is below Mean,
// or the deviation is Deviation or more. (Its code has 10 rewards, each the sum of an
// episode, a mean of 100 and a deviation of 10.)
type Thresholds struct {
	Window    int     // rewards, 2 or more
	Mean      float64 // in the reward's unit
	Deviation float64 // of the rewards (over n, as numpy has it), in the reward's unit; above 0
}

// Check returns an error that names the field.
func (t Thresholds) Check() error {
	if t.Window < 2 || t.Window > mostValues {
		return fmt.Errorf("window: %d, want 2 to %d", t.Window, mostValues)
	}
	if math.IsNaN(t.Mean) || math.IsInf(t.Mean, 0) {
		return fmt.Errorf("mean: %v, want a number", t.Mean)
	}
	if !(t.Deviation > 0) {
		return fmt.Errorf("deviation: %v, want a number above 0", t.Deviation)
	}
	return nil
}

// A RewardWatch applies [Thresholds] to rewards.
type RewardWatch struct {
	thresholds Thresholds
	rewards    []float64 // the last, oldest first
}

// NewRewardWatch makes one without rewards.
func NewRewardWatch(t Thresholds) (*RewardWatch, error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("drift: %w", err)
	}
	return &RewardWatch{thresholds: t}, nil
}

// Observe adds the next reward and reports whether the rule requires retraining: never before
// the window is full, then with every reward for as long as the rule holds. A reward that is
// not finite is refused and changes nothing.
func (w *RewardWatch) Observe(reward float64) (bool, error) {
	if math.IsNaN(reward) || math.IsInf(reward, 0) {
		return false, fmt.Errorf("drift: reward is %v", reward)
	}
	if len(w.rewards) == w.thresholds.Window {
		w.rewards = slices.Delete(w.rewards, 0, 1)
	}
	w.rewards = append(w.rewards, reward)
	n := float64(len(w.rewards))
	if len(w.rewards) < w.thresholds.Window {
		return false, nil
	}
	mean, squares := 0., 0.
	for _, r := range w.rewards {
		mean += r / n
	}
	for _, r := range w.rewards {
		squares += (r - mean) * (r - mean)
	}
	return mean < w.thresholds.Mean || math.Sqrt(squares/n) >= w.thresholds.Deviation, nil
}

type rewardState struct {
	Rewards []float64 `json:"rewards"`
}

// MarshalJSON returns its state, without its thresholds.
func (w *RewardWatch) MarshalJSON() ([]byte, error) { return json.Marshal(rewardState{w.rewards}) }

// UnmarshalJSON reads the output of MarshalJSON of one with the same window. Anything else is
// refused and changes nothing.
func (w *RewardWatch) UnmarshalJSON(data []byte) error {
	var s rewardState
	if err := decode(data, &s); err != nil {
		return err
	}
	if len(s.Rewards) > w.thresholds.Window {
		return fmt.Errorf("drift: rewards: %d, want at most %d", len(s.Rewards), w.thresholds.Window)
	}
	w.rewards = s.Rewards
	return nil
}

// decode reads one JSON object and refuses unknown fields.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("drift: state: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("drift: state: more than one JSON value")
	}
	return nil
}
