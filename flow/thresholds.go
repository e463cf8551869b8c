package flow

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The most bands that there are, and the largest threshold in bytes. The least is that of objects of a cluster: below it
// there is hardly a packet.
const (
	MostBands        = 8
	LargestThreshold = 1e12
	LeastThreshold   = 1000
)

// Thresholds are the bytes after which a flow leaves a band: the first is for the first band. K bands have K − 1 of
// them, ascending.
type Thresholds []int64

// ParseThresholds reads amounts with slashes between them, such as 100k/1.8M/9.9M.
func ParseThresholds(text string) (Thresholds, error) {
	var t Thresholds
	for i, part := range strings.Split(text, "/") {
		v, err := ParseAmount(part)
		if err != nil {
			return nil, fmt.Errorf("threshold %d: %w", i+1, err)
		}
		if v > LargestThreshold {
			return nil, fmt.Errorf("threshold %d: %q: want at most 1T", i+1, part)
		}
		if v != math.Trunc(v) {
			return nil, fmt.Errorf("threshold %d: %q: want whole bytes", i+1, part)
		}
		t = append(t, int64(v))
	}
	return t, t.Validate()
}

// Validate returns an error if there are none or more than 7, if they are not ascending, below 1 byte or above 1 TB.
func (t Thresholds) Validate() error {
	if len(t) == 0 {
		return errors.New("thresholds: none; want 1 to 7")
	}
	if len(t) >= MostBands {
		return fmt.Errorf("thresholds: %d, want at most %d", len(t), MostBands-1)
	}
	for i, v := range t {
		switch {
		case v < 1 || v > LargestThreshold:
			return fmt.Errorf("threshold %d: %d bytes, want 1 to 1T", i+1, v)
		case i > 0 && v == t[i-1]:
			return fmt.Errorf("threshold %d: %s is equal to the one before", i+1, FormatAmount(float64(v)))
		case i > 0 && v < t[i-1]:
			return fmt.Errorf("threshold %d: %s comes after %s: want them ascending", i+1, FormatAmount(float64(v)), FormatAmount(float64(t[i-1])))
		}
	}
	return nil
}

// ValidateFor returns the error of thresholds for the nodes of a cluster, with so many bands.
func (t Thresholds) ValidateFor(bands int) error {
	if err := t.Validate(); err != nil {
		return err
	}
	switch {
	case len(t) != bands-1:
		return fmt.Errorf("%d thresholds, want one less than the %d bands", len(t), bands)
	case t[0] < LeastThreshold:
		return fmt.Errorf("threshold 1: %d bytes, want at least %d", t[0], LeastThreshold)
	}
	return nil
}

// Band is the band, from 0, of a flow that has sent so many bytes.
func (t Thresholds) Band(sent int64) int {
	at, found := slices.BinarySearch(t, sent)
	if found {
		at++
	}
	return at
}

// Equal reports whether both are the same.
func (t Thresholds) Equal(o Thresholds) bool { return slices.Equal(t, o) }

// String is the format that ParseThresholds reads.
func (t Thresholds) String() string {
	parts := make([]string, len(t))
	for i, v := range t {
		parts[i] = FormatAmount(float64(v))
	}
	return strings.Join(parts, "/")
}
