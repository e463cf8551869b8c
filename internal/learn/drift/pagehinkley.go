package drift

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// A Change is the direction of a change found with a value.
type Change string

// The directions of a change.
const (
	None Change = ""
	Up   Change = "up"   // values have become larger
	Down Change = "down" // values have become smaller
)

// The best settings of the study: no false alarm in 160 hours, changes by 20 % after some 8
// values.
const (
	DefaultDelta     = .75
	DefaultLambda    = 20.
	DefaultReference = 120
)

// deviations is the deviation of a normal distribution in median absolute deviations.
const deviations = 1.4826

// clipAt bounds the effect of one value, in robust deviations.
const clipAt = 6

// Settings of a [PageHinkley].
type Settings struct {
	Delta     float64 `json:"delta"`     // δ: by how many robust deviations a value may be off, above 0
	Lambda    float64 `json:"lambda"`    // λ: the sum that is an alarm, in robust deviations, above 0
	Reference int     `json:"reference"` // values that the reference is taken from, 8 or more
}

// Check returns an error that names the field.
func (s Settings) Check() error {
	for _, f := range []struct {
		name  string
		value float64
	}{{"delta", s.Delta}, {"lambda", s.Lambda}} {
		if !(f.value > 0) || math.IsInf(f.value, 0) {
			return fmt.Errorf("%s: %v, want a number above 0", f.name, f.value)
		}
	}
	if s.Delta >= clipAt {
		return fmt.Errorf("delta: %v, want less than %d: values are clipped there", s.Delta, clipAt)
	}
	if s.Reference < 8 || s.Reference > mostValues {
		return fmt.Errorf("reference: %d, want 8 to %d", s.Reference, mostValues)
	}
	return nil
}

// mostValues bounds the number of values that a detector keeps.
const mostValues = 1 << 16

// A PageHinkley finds a lasting change of a series, two-sided. With
//
//	z = (x − median) ÷ (1.4826 · MAD), within ± 6,
//	up ← max(0, up + z − δ), down ← max(0, down − z − δ)
//
// it gives an alarm when a sum is above λ. Median and MAD, the median absolute deviation,
// are those of the reference: the first values, and after an alarm those that follow
// it. A change of m robust deviations is found after some λ ÷ (m − δ) values.
type PageHinkley struct {
	settings Settings
	state    pageHinkleyState
}

type pageHinkleyState struct {
	Reference []float64 `json:"reference,omitempty"` // while it is collected
	Median    float64   `json:"median"`
	Deviation float64   `json:"deviation"` // 1.4826 · MAD; 0 while the reference is collected
	Up        float64   `json:"up"`
	Down      float64   `json:"down"`
}

// NewPageHinkley makes a detector without values.
func NewPageHinkley(s Settings) (*PageHinkley, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("drift: %w", err)
	}
	return &PageHinkley{settings: s}, nil
}

// Observe adds the next value and returns the change that it shows: None while the reference
// is collected. A value that is not finite is refused and changes nothing. If half the values
// of a reference are equal it has no deviation: collecting continues, without the oldest
// values.
func (p *PageHinkley) Observe(x float64) (Change, error) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return None, fmt.Errorf("drift: value is %v", x)
	}
	s := &p.state
	if s.Deviation == 0 {
		p.collect(x)
		return None, nil
	}
	z := max(-clipAt, min(clipAt, (x-s.Median)/s.Deviation))
	s.Up = max(0, s.Up+z-p.settings.Delta)
	s.Down = max(0, s.Down-z-p.settings.Delta)
	var found Change
	switch {
	case s.Up > p.settings.Lambda:
		found = Up
	case s.Down > p.settings.Lambda:
		found = Down
	default:
		return None, nil
	}
	p.state = pageHinkleyState{}
	return found, nil
}

// collect takes a value for the reference.
func (p *PageHinkley) collect(x float64) {
	s := &p.state
	s.Reference = append(s.Reference, x)
	if len(s.Reference) > p.settings.Reference {
		s.Reference = slices.Delete(s.Reference, 0, 1)
	}
	if len(s.Reference) < p.settings.Reference {
		return
	}
	middle := median(s.Reference)
	off := make([]float64, len(s.Reference))
	for i, v := range s.Reference {
		off[i] = math.Abs(v - middle)
	}
	deviation := deviations * median(off)
	// Values as large as a float can hold have no finite deviation.
	if deviation > 0 && !math.IsInf(deviation, 0) && !math.IsInf(middle, 0) {
		*s = pageHinkleyState{Median: middle, Deviation: deviation}
	}
}

// median of at least one value, which it does not change.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return sorted[half-1]/2 + sorted[half]/2
}

// Ready reports whether there is a reference to compare with.
func (p *PageHinkley) Ready() bool { return p.state.Deviation > 0 }

// MarshalJSON returns the detector's state, without its settings.
func (p *PageHinkley) MarshalJSON() ([]byte, error) { return json.Marshal(p.state) }

// UnmarshalJSON reads the output of MarshalJSON of a detector with the same settings. It
// refuses any other state and then changes nothing.
func (p *PageHinkley) UnmarshalJSON(data []byte) error {
	var s pageHinkleyState
	if err := decode(data, &s); err != nil {
		return err
	}
	watching := s.Deviation > 0
	switch {
	case s.Deviation < 0:
		return fmt.Errorf("drift: deviation: %v, want 0 or more", s.Deviation)
	case watching && len(s.Reference) > 0:
		return fmt.Errorf("drift: reference: %d values beside a deviation, want none", len(s.Reference))
	case len(s.Reference) > p.settings.Reference:
		return fmt.Errorf("drift: reference: %d values, want at most %d", len(s.Reference), p.settings.Reference)
	case !watching && (s.Median != 0 || s.Up != 0 || s.Down != 0):
		return fmt.Errorf("drift: median, up and down: want 0 without a deviation")
	}
	for name, sum := range map[string]float64{"up": s.Up, "down": s.Down} {
		if sum < 0 || sum > p.settings.Lambda {
			return fmt.Errorf("drift: %s: %v, want 0 to %v", name, sum, p.settings.Lambda)
		}
	}
	p.state = s
	return nil
}

// Expect starts the detector again with a given reference: the median and the robust
// deviation of values without a change.
func (p *PageHinkley) Expect(middle, deviation float64) error {
	if math.IsNaN(middle) || math.IsInf(middle, 0) || !(deviation > 0) || math.IsInf(deviation, 0) {
		return fmt.Errorf("drift: median %v, deviation %v: want a number and one above 0", middle, deviation)
	}
	p.state = pageHinkleyState{Median: middle, Deviation: deviation}
	return nil
}
