package node

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
)

// segment is a TCP segment with its numbers.
func segment(flags byte, payload int, sequence, acknowledged uint32) packet {
	p := data4(flags, payload)
	binary.BigEndian.PutUint32(p[38:], sequence)
	binary.BigEndian.PutUint32(p[42:], acknowledged)
	return p
}

// reply is a segment of the other side.
func reply(payload int, acknowledged uint32) packet {
	p := segment(ack, payload, 1, acknowledged)
	copy(p[26:], []byte{10, 0, 0, 2, 10, 0, 0, 1})
	copy(p[34:], []byte{0, 80, 0x9c, 0x40})
	return p
}

// silent makes a flow silent, and the other side, for so long.
func silent(t testing.TB, o *orderObjects, sender, receiver time.Duration) {
	t.Helper()
	var k orderKey
	var p orderProgress
	require.True(t, o.Flows.Iterate().Next(&k, &p))
	p.Last -= uint64(sender)
	if p.Tail.Heard > 0 {
		p.Tail.Heard -= uint64(receiver)
	}
	require.NoError(t, o.Flows.Put(&k, &p))
}

// A silence ends a message of a connection once all of it was acknowledged, and one of a second in any case. A message that
// waits in the queue of its band is not silent, however long it waits, nor is one whose last acknowledgement has just come.
func TestOrderMessages(t *testing.T) {
	first := uint32(0xfffffe00)                      // the numbers wrap
	const some, idle = 10 * time.Second, time.Minute // far apart: the machine may halt for a second
	for name, c := range map[string]struct {
		acknowledged     []uint32
		payload          int // of the other side's segments
		sender, receiver time.Duration
		want             int
	}{
		"all acknowledged":                      {[]uint32{first + 1000}, 0, some, some, 0},
		"all acknowledged by answers":           {[]uint32{first + 1000}, 80, some, some, 0},
		"in two steps":                          {[]uint32{first + 500, first + 1000}, 0, some, some, 0},
		"an acknowledgement that comes late":    {[]uint32{first + 1000, first + 500}, 0, some, some, 0},
		"a part is on its way":                  {[]uint32{first + 999}, 0, some, some, 1},
		"a part is on its way, and answers":     {[]uint32{first + 999}, 80, some, some, 1},
		"nothing acknowledged":                  {nil, 0, some, some, 1},
		"it waited, and goes on at once":        {[]uint32{first + 1000}, 0, some, -some, 1}, // in the future, so that no halt makes it a silence
		"nothing acknowledged, for a long time": {nil, 0, 2 * idle, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := openOrderIdle(t, flow.Thresholds{100}, idle)
			require.Equal(t, 0, bandOf(t, o, segment(ack, 1000, first, 1)))
			for _, a := range c.acknowledged {
				before := reply(c.payload, a)
				verdict, after, err := o.Acknowledged.Test(before)
				require.NoError(t, err)
				require.Equal(t, ^uint32(0), verdict, "go on with the next program")
				require.Equal(t, []byte(before), after)
			}
			silent(t, o, c.sender, c.receiver)
			require.Equal(t, c.want, bandOf(t, o, segment(ack, 1, first+1000, 1)))
		})
	}
}

// What is sent again is no new end: the message is not over before all of it was acknowledged.
func TestOrderSentAgain(t *testing.T) {
	o := openOrder(t, flow.Thresholds{100})
	bandOf(t, o, segment(ack, 1000, 5000, 1))
	bandOf(t, o, segment(ack, 500, 5000, 1))
	var k orderKey
	var p orderProgress
	require.True(t, o.Flows.Iterate().Next(&k, &p))
	require.EqualValues(t, 6000, p.Tail.End)
	// Another connection with the same ports begins.
	bandOf(t, o, segment(syn, 0, 77, 0))
	require.True(t, o.Flows.Iterate().Next(&k, &p))
	require.EqualValues(t, 77, p.Tail.End)
	require.EqualValues(t, 76, p.Tail.Acknowledged)
}

// A flow that was silent for long begins again in the first band, whether or not anything was acknowledged.
func TestOrderIdle(t *testing.T) {
	o := openOrder(t, flow.Thresholds{100})
	require.Equal(t, 0, bandOf(t, o, data4(ack, 1000)))
	require.Equal(t, 1, bandOf(t, o, data4(ack, 1)))
	var k orderKey
	var p orderProgress
	all := o.Flows.Iterate()
	require.True(t, all.Next(&k, &p))
	p.Last -= uint64(DefaultIdle) + 1
	require.NoError(t, o.Flows.Put(&k, &p))
	require.Equal(t, 0, bandOf(t, o, data4(ack, 1)))
	// Another processor has stored a later time: that is no gap.
	require.NoError(t, o.Flows.Put(&k, &orderProgress{Bytes: 1000, Last: p.Last + uint64(time.Hour)}))
	require.Equal(t, 1, bandOf(t, o, data4(ack, 1)))
}

// silentObserved makes the observed flow silent for so long, and its other side.
func silentObserved(t testing.TB, o *Observer, silence time.Duration) {
	t.Helper()
	var k observeKey
	var s observeState
	require.True(t, o.objects.Flows.Iterate().Next(&k, &s))
	s.Last -= uint64(silence)
	s.Tail.Heard -= min(s.Tail.Heard, uint64(silence))
	require.NoError(t, o.objects.Flows.Put(&k, &s))
}

// The observer has the order's messages: each is a record, and the side of the connection stays.
func TestObservedMessages(t *testing.T) {
	const some = 10 * time.Second
	o := open(t, Options{Idle: time.Minute})
	run(t, o, segment(syn, 0, 99, 0))
	run(t, o, segment(ack, 600, 100, 1))
	silentObserved(t, o, some)
	run(t, o, segment(ack, 400, 700, 1))
	nothing(t, o) // the first 600 may wait in a queue
	_, _, err := o.objects.Acknowledged.Test(reply(0, 1100))
	require.NoError(t, err)
	silentObserved(t, o, some)
	ended, _, err := o.Sweep()
	require.NoError(t, err)
	require.Empty(t, ended, "it may go on")
	run(t, o, segment(ack, 50, 1100, 9))
	r := next(t, o)
	require.Equal(t, flow.Idle, r.End)
	require.EqualValues(t, 1000, r.Bytes)
	require.Equal(t, flow.ClientSide, r.Side)
	run(t, o, segment(ack|fin, 0, 1150, 9))
	r = next(t, o)
	require.EqualValues(t, 50, r.Bytes)
	require.Equal(t, flow.ClientSide, r.Side)
}

// Messages of a real connection that is kept open are records of their own, and begin in the first band of the uplink. With a gap of
// a minute the connection is one flow.
func TestMessagesOnUplink(t *testing.T) {
	bed := bedOf(t)
	pins := pinsOf(t)
	const server = nodetest.AddressPeer + ":9001"
	nodetest.ListenMessages(t, bed.Peer, server)
	require.NoError(t, nodetest.Within(bed.Node, func() error {
		for _, gap := range []time.Duration{DefaultGap, time.Minute} {
			o := open(t, Options{Gap: gap})
			list, err := Interfaces([]string{"pod1"})
			require.NoError(t, err)
			require.NoError(t, o.Watch(list))
			order := OrderOptions{Uplink: "up0", Rate: 1e9, Thresholds: flow.Thresholds{20_000}, Gap: gap, Pins: pins}
			turnOn(t, order)
			c, err := nodetest.Connect(bed.Pod1, server)
			require.NoError(t, err)
			send := func(size int64) {
				_, err := nodetest.Message(c, time.Now, size)
				require.NoError(t, err)
				time.Sleep(5 * DefaultGap) // from the answer on, which acknowledges all
			}
			send(500_000)
			before, err := ReadOrder(pins)
			require.NoError(t, err)
			send(10_000)
			after, err := ReadOrder(pins)
			require.NoError(t, err)
			own, last := after.Bands[0].Bytes-before.Bands[0].Bytes, after.Bands[1].Bytes-before.Bands[1].Bytes
			require.NoError(t, c.Close())
			r := next(t, o)
			if gap == DefaultGap {
				require.Greater(t, own, uint64(10_000))
				require.Less(t, last, uint64(5_000))
				require.True(t, nodetest.SizeIs(r.Bytes, 500_000), "%d bytes", r.Bytes)
				r = next(t, o)
				require.True(t, nodetest.SizeIs(r.Bytes, 10_000), "%d bytes", r.Bytes)
			} else {
				require.Greater(t, last, uint64(10_000))
				require.True(t, nodetest.SizeIs(r.Bytes, 510_000), "%d bytes", r.Bytes)
			}
			require.NoError(t, o.Close())
			require.NoError(t, TurnOff(pins, 0))
		}
		return nil
	}))
}
