//go:build e2e

package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An absence is the time from a pod's eviction until its replacement is ready, in whole seconds.
type absence struct{ from, to time.Time }

// absenceOf ends when a replacement was ready, and begins with the last record before; zero where there is none.
func absenceOf(records []time.Time, ready time.Time) (a absence) {
	for _, at := range records {
		if !at.After(ready) && !at.Before(a.from) {
			a = absence{at, ready}
		}
	}
	return a
}

// mostAtOnce is how many absences overlap with one of them, itself included.
func mostAtOnce(list []absence) (most int) {
	for i, a := range list {
		n := 1
		for j, b := range list {
			if i != j && a.from.Before(b.to) && b.from.Before(a.to) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestAbsences is of what counts the pods that are away while no watch works.
func TestAbsences(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	require.Equal(t, absence{at(5), at(9)}, absenceOf([]time.Time{at(2), at(5), at(12)}, at(9)))
	require.Zero(t, absenceOf([]time.Time{at(12)}, at(9)))
	require.Zero(t, mostAtOnce(nil))
	require.Equal(t, 1, mostAtOnce([]absence{{at(1), at(4)}, {at(4), at(4)}, {at(4), at(7)}}), "one after the other")
	require.Equal(t, 2, mostAtOnce([]absence{{at(1), at(4)}, {at(3), at(7)}, {at(7), at(9)}}))
}
