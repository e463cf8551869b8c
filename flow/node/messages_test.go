package node

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/flow"
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

// A silence ends a message of a connection once all of it was acknowledged, and one of DefaultIdle in any case. A message that
// waits in the queue of its band is not silent, however long it waits, nor is one whose last acknowledgement has just come.
func TestOrderMessages(t *testing.T) {
	first := uint32(0xfffffe00)  // the numbers wrap
	const some = DefaultIdle / 2 // far from both gaps: the machine may be busy
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
		"nothing acknowledged, for a long time": {nil, 0, 2 * DefaultIdle, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := openOrder(t, flow.Thresholds{100})
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
