package guard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/sigma-scheduler/sigma/mpa/guard"
)

var now = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// ago is now less some time, for each.
func ago(list ...time.Duration) (times []time.Time) {
	for _, d := range list {
		times = append(times, now.Add(-d))
	}
	return times
}

func TestFreshness(t *testing.T) {
	f := guard.Freshness(2 * time.Minute)
	assert.True(t, f.Known(now, now))
	assert.True(t, f.Known(now.Add(-2*time.Minute), now))
	assert.False(t, f.Known(now.Add(-2*time.Minute-1), now), "too old")
	assert.True(t, f.Known(now.Add(2*time.Minute), now))
	assert.False(t, f.Known(now.Add(2*time.Minute+1), now), "of another clock")
	assert.False(t, f.Known(time.Time{}, now), "none")
}

func TestClock(t *testing.T) {
	c := guard.Clock(10 * time.Minute)
	assert.Zero(t, c.Jump(time.Time{}, now), "the first look")
	assert.Zero(t, c.Jump(now, now))
	assert.Zero(t, c.Jump(now, now.Add(10*time.Minute)))
	assert.Equal(t, 10*time.Minute+1, c.Jump(now, now.Add(10*time.Minute+1)))
	assert.Equal(t, -time.Nanosecond, c.Jump(now, now.Add(-1)))
	assert.Equal(t, now.Add(time.Hour), guard.Moved(now, time.Hour))
	assert.Zero(t, guard.Moved(time.Time{}, time.Hour))
}

func TestBudget(t *testing.T) {
	b := guard.Budget{PerHour: 3, CoolDown: guard.CoolDown(time.Minute)}
	for _, test := range []struct {
		changes []time.Time
		shrinks bool
		want    string
	}{
		{nil, false, ""},
		{nil, true, ""},
		{ago(0), false, ""},
		{ago(30 * time.Second), true, "changed less than 1m0s ago"},
		{ago(time.Minute), true, ""},
		{ago(40*time.Minute, 20*time.Minute), true, "2 changes within an hour"}, // half of 3, and one to grow
		{ago(40*time.Minute, 20*time.Minute), false, ""},
		{ago(40*time.Minute, 20*time.Minute, 0), false, "3 changes within an hour"},
	} {
		assert.Equal(t, test.want, b.Refuse(test.changes, now, test.shrinks), "%+v", test)
	}
	assert.Equal(t, "0 changes within an hour", guard.Budget{}.Refuse(nil, now, false), "no budget at all")
	assert.Equal(t, ago(59*time.Minute, 0), guard.LastHour(ago(61*time.Minute, time.Hour, 59*time.Minute, 0), now))
	assert.Empty(t, guard.LastHour(ago(time.Hour), now))
}

// Four changes within an hour are wanted, and three are made.
func Example() {
	b := guard.Budget{PerHour: 3, CoolDown: guard.CoolDown(time.Minute)}
	var changes []time.Time
	for _, minute := range []int{0, 10, 20, 30, 65} {
		at := now.Add(time.Duration(minute) * time.Minute)
		changes = guard.LastHour(changes, at)
		if why := b.Refuse(changes, at, false); why != "" {
			fmt.Println(minute, why)
			continue
		}
		changes = append(changes, at)
		fmt.Println(minute, "changed")
	}
	// Output:
	// 0 changed
	// 10 changed
	// 20 changed
	// 30 3 changes within an hour
	// 65 changed
}
