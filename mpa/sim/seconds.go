package sim

import (
	"encoding/json"
	"math"
)

// Seconds that may be infinite, +Inf, or missing, NaN. The JSON form of both is null.
type Seconds float64

// MarshalJSON implements [json.Marshaler].
func (s Seconds) MarshalJSON() ([]byte, error) {
	if v := float64(s); math.IsInf(v, 0) || math.IsNaN(v) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(s))
}

// UnmarshalJSON reads null as +Inf.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*s = Seconds(math.Inf(1))
		return nil
	}
	return json.Unmarshal(text, (*float64)(s))
}
