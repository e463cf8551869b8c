package capacity

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// A Value is a number that may be missing; the zero value is. Its JSON form is the number
// or null.
type Value struct {
	Number float64
	Known  bool
}

// Some returns a known value.
func Some(number float64) Value { return Value{number, true} }

// MarshalJSON implements [json.Marshaler].
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Known {
		return []byte("null"), nil
	}
	return json.Marshal(v.Number)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (v *Value) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*v = Value{}
		return nil
	}
	v.Known = true
	return json.Unmarshal(text, &v.Number)
}

// A Window holds the measurements of one pod while its limit stayed the same. Every value may
// be missing.
type Window struct {
	Time        time.Time `json:"time"`                 // its end
	Length      Value     `json:"length,omitzero"`      // seconds
	Limit       Value     `json:"limit,omitzero"`       // requests at once that were let in; 0 = any number
	Inside      Value     `json:"inside,omitzero"`      // mean number of requests let in and not answered
	Answered    Value     `json:"answered,omitzero"`    // requests answered well
	Failed      Value     `json:"failed,omitzero"`      // requests lost, or answered with an error of the pod
	Gone        Value     `json:"gone,omitzero"`        // requests whose caller left before the answer was complete
	CPU         Value     `json:"cpu,omitzero"`         // core-seconds used
	Quota       Value     `json:"quota,omitzero"`       // cores; 0 = no limit, so the node's cores are
	Memory      Value     `json:"memory,omitzero"`      // bytes, the most in the window
	MemoryLimit Value     `json:"memoryLimit,omitzero"` // bytes; 0 = no limit
}

// slack is the factor by which a measured amount may exceed its bound by rounding and by
// clocks that are read one after the other.
const slack = 1.25

// Check returns an error that names the field of a window that no pod can have.
func (w *Window) Check() error {
	for _, f := range []struct {
		name  string
		value Value
	}{
		{"length", w.Length},
		{"limit", w.Limit},
		{"inside", w.Inside},
		{"answered", w.Answered},
		{"failed", w.Failed},
		{"gone", w.Gone},
		{"cpu", w.CPU},
		{"quota", w.Quota},
		{"memory", w.Memory},
		{"memoryLimit", w.MemoryLimit},
	} {
		if v := f.value.Number; f.value.Known && !(v >= 0 && v <= 1e18) {
			return fmt.Errorf("%s: %v, want a number from 0", f.name, v)
		}
	}
	switch {
	case !w.Length.Known:
		return fmt.Errorf("length: it is missing")
	case w.Length.Number < shortest:
		return fmt.Errorf("length: %v s, want %v or more", w.Length.Number, shortest)
	case w.Limit.Known && w.Limit.Number != math.Trunc(w.Limit.Number):
		return fmt.Errorf("limit: %v, want a whole number", w.Limit.Number)
	case w.Limit.Known && w.Limit.Number > 0 && w.Inside.Known && w.Inside.Number > w.Limit.Number*slack:
		return fmt.Errorf("inside: %v with a limit of %v", w.Inside.Number, w.Limit.Number)
	case w.CPU.Known && w.Quota.Known && w.Quota.Number > 0 && w.CPU.Number > w.Quota.Number*w.Length.Number*slack+period*w.Quota.Number:
		return fmt.Errorf("cpu: %v core-seconds in %v s, the quota is %v cores", w.CPU.Number, w.Length.Number, w.Quota.Number)
	case w.Memory.Known && w.MemoryLimit.Known && w.MemoryLimit.Number > 0 && w.Memory.Number > w.MemoryLimit.Number*slack:
		return fmt.Errorf("memory: %v bytes, the limit is %v", w.Memory.Number, w.MemoryLimit.Number)
	}
	return nil
}

const (
	shortest = 1e-3 // seconds
	period   = .1   // seconds, of the CFS bandwidth controller
)

// rate of answers a second.
func (w *Window) rate() Value {
	if !w.Answered.Known {
		return Value{}
	}
	return Some(w.Answered.Number / w.Length.Number)
}

// demand in core-seconds a request. The pod works also on requests whose callers have left.
func (w *Window) demand() Value {
	if !w.Answered.Known || !w.CPU.Known || w.Answered.Number == 0 || w.CPU.Number == 0 {
		return Value{}
	}
	return Some(w.CPU.Number / (w.Answered.Number + w.Gone.Number))
}

// cores that the pod may use.
func (w *Window) cores() Value {
	if !w.Quota.Known || w.Quota.Number == 0 {
		return Value{}
	}
	return w.Quota
}

// utilisation of the quota.
func (w *Window) utilisation() Value {
	q := w.cores()
	if !q.Known || !w.CPU.Known {
		return Value{}
	}
	return Some(min(1, w.CPU.Number/w.Length.Number/q.Number))
}

// share of the memory limit.
func (w *Window) share() Value {
	if !w.Memory.Known || !w.MemoryLimit.Known || w.MemoryLimit.Number == 0 {
		return Value{}
	}
	return Some(w.Memory.Number / w.MemoryLimit.Number)
}

// population is the number inside, or the limit where it is not measured.
func (w *Window) population() float64 {
	if w.Inside.Known {
		return w.Inside.Number
	}
	return w.Limit.Number
}

// saturated reports whether the limit bound the requests.
func (w *Window) saturated() bool {
	return !w.Inside.Known || w.Inside.Number >= .9*w.Limit.Number
}

// Lost is the share of the requests that failed.
func (w *Window) Lost() float64 {
	if !w.Failed.Known || w.Failed.Number == 0 {
		return 0
	}
	return w.Failed.Number / (w.Failed.Number + w.Answered.Number)
}

// Failing reports whether the pod lost more than a twentieth of its requests.
func (w *Window) Failing() bool {
	return w.Failed.Known && w.Failed.Number > 0 && w.Failed.Number > .05*w.Answered.Number
}
