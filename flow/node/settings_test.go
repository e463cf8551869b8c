package node

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/flow"
)

// inForce are the settings that the next packet sees.
func inForce(t testing.TB, o *orderObjects) orderBands {
	t.Helper()
	b, err := o.inForce().read()
	require.NoError(t, err)
	return b
}

// A packet may still read settings that were in force before: an update is written elsewhere.
func TestOrderSettingsStay(t *testing.T) {
	o := openOrder(t, flow.Thresholds{100})
	places := map[uint32]bool{}
	most := o.Settings.MaxEntries()
	require.Greater(t, most, uint32(16))
	for i := range most {
		at, err := o.inForce().place()
		require.NoError(t, err)
		require.False(t, places[at], "update %d", i)
		places[at] = true
		before := inForce(t, o)
		_, err = o.set(before, flow.Thresholds{int64(200 + i)})
		require.NoError(t, err)
		var left orderBands
		require.NoError(t, o.Settings.Lookup(at, &left))
		require.Equal(t, before, left)
		require.EqualValues(t, 200+i, inForce(t, o).Above[0])
	}
	require.Equal(t, 0, bandOf(t, o, data4(ack, 200+int(most)-1)))
	require.Equal(t, 1, bandOf(t, o, data4(ack, 1)), "of the last")
}

// Before there are settings packets pass as they are.
func TestOrderWithoutSettings(t *testing.T) {
	o := openOrder(t, flow.Thresholds{100})
	require.NoError(t, o.inForce().write(&orderBands{First: 7}))
	require.Equal(t, 6-int(classOf(0)), bandOf(t, o, data4(ack, 1000)), "the priority that it had")
}

// The order of the version before has one place for its settings.
func TestSettingsOfOnePlace(t *testing.T) {
	o := openOrder(t, flow.Thresholds{100})
	one, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: o.Settings.ValueSize(), MaxEntries: 1, Flags: unix.BPF_F_NO_PREALLOC})
	require.NoError(t, err)
	defer func() { require.NoError(t, one.Close()) }()
	m := settingsMaps{settings: one}
	for _, id := range []uint64{3, 4} {
		b := inForce(t, o)
		b.Id = id
		require.NoError(t, m.write(&b))
		got, err := m.read()
		require.NoError(t, err)
		require.Equal(t, b, got)
	}
}

// The program's clock goes as fast as that of the machine.
func TestOrderClock(t *testing.T) {
	o := openOrder(t, flow.Thresholds{100})
	last := func() (before, after time.Time, at time.Duration) {
		before = time.Now()
		bandOf(t, o, data4(ack, 1000))
		after = time.Now()
		var k orderKey
		var p orderProgress
		require.True(t, o.Flows.Iterate().Next(&k, &p))
		return before, after, time.Duration(p.Last)
	}
	const ticks = 20 * time.Millisecond // two of the longest
	beforeFirst, afterFirst, first := last()
	time.Sleep(200 * time.Millisecond)
	before, after, second := last()
	require.Greater(t, second-first, before.Sub(afterFirst)-ticks)
	require.Less(t, second-first, after.Sub(beforeFirst)+ticks)
}
