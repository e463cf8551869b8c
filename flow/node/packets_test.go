package node

import (
	"encoding/binary"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

var missing = sync.OnceValue(func() error { return Missing(Probe()) })

// open loads the program, or skips where this machine or this user cannot.
func open(t testing.TB, o Options) *Observer {
	t.Helper()
	if err := missing(); err != nil {
		t.Skipf("no BPF here: %v", err)
	}
	ob, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ob.Close() }) // some tests close it themselves
	return ob
}

// A packet is made of layers, from the outside in.
type packet []byte

func (p packet) add(b ...byte) packet { return append(p, b...) }

func ethernet(kind uint16, tags ...uint16) packet {
	p := make(packet, 12)
	for _, t := range tags {
		p = binary.BigEndian.AppendUint16(p, t)
		p = p.add(0, 7) // VLAN 7
	}
	return binary.BigEndian.AppendUint16(p, kind)
}

// ipv4 has a header of so many 32-bit words, and says a length of its header and what follows.
func (p packet) ipv4(words, follows int, protocol byte, fragment uint16) packet {
	h := make([]byte, words*4)
	h[0] = 0x40 | byte(words)
	binary.BigEndian.PutUint16(h[2:], uint16(words*4+follows))
	binary.BigEndian.PutUint16(h[6:], fragment)
	h[9] = protocol
	copy(h[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	return p.add(h...)
}

func (p packet) ipv6(follows int, next byte) packet {
	h := make([]byte, 40)
	h[0] = 0x60
	binary.BigEndian.PutUint16(h[4:], uint16(follows))
	h[6] = next
	h[8], h[23], h[24], h[39] = 0xfd, 1, 0xfd, 2
	return p.add(h...)
}

func (p packet) tcp(words int, flags byte, payload int) packet {
	h := make([]byte, words*4+payload)
	copy(h, []byte{0x9c, 0x40, 0, 80}) // 40000 to 80
	h[12], h[13] = byte(words)<<4, flags
	return p.add(h...)
}

func (p packet) udp(payload int) packet {
	h := make([]byte, 8+payload)
	copy(h, []byte{0x9c, 0x40, 0, 53})
	binary.BigEndian.PutUint16(h[4:], uint16(8+payload))
	return p.add(h...)
}

const ack, fin, syn = 16, 1, 2

// run sends a packet through the program, and checks that the packet, its context and the verdict are as they were.
func run(t testing.TB, o *Observer, p packet) {
	t.Helper()
	// The fields of __sk_buff that a program may write: mark, priority, cb.
	before := make([]byte, 192)
	binary.NativeEndian.PutUint32(before[8:], 5)
	binary.NativeEndian.PutUint32(before[32:], 6)
	binary.NativeEndian.PutUint32(before[48:], 7)
	after, out := make([]byte, 192), make([]byte, len(p)+256)
	options := ebpf.RunOptions{Data: p, DataOut: out, Context: before, ContextOut: after}
	verdict, err := o.objects.Observe.Run(&options)
	require.NoError(t, err)
	require.Equal(t, ^uint32(0), verdict, "go on with the next program")
	require.Equal(t, []byte(p), options.DataOut)
	require.Equal(t, before[8:12], after[8:12], "mark")
	require.Equal(t, before[32:36], after[32:36], "priority")
	require.Equal(t, before[48:68], after[48:68], "cb")
}

// flows returns what the map holds.
func (o *Observer) flows(t testing.TB) (list []flow.Record) {
	t.Helper()
	var k observeKey
	var s observeState
	all := o.objects.Flows.Iterate()
	for all.Next(&k, &s) {
		list = append(list, o.record(&k, &s, flow.Running))
	}
	require.NoError(t, all.Err())
	return list
}

func TestPackets(t *testing.T) {
	const kind4, kind6 = 0x0800, 0x86dd
	four, six := [2]string{"10.0.0.1", "10.0.0.2"}, [2]string{"fd00::1", "fd00::2"}
	o := open(t, Options{Flows: 1024})
	var before Counts
	for _, c := range []struct {
		name     string
		p        packet
		from     [2]string
		protocol uint8
		bytes    uint64
		none     string // the counter, where it is no flow
	}{
		{"TCP on IPv4", ethernet(kind4).ipv4(5, 20+100, 6, 0).tcp(5, ack, 100), four, 6, 100, ""},
		{"IP options", ethernet(kind4).ipv4(15, 20+100, 6, 0).tcp(5, ack, 100), four, 6, 100, ""},
		{"TCP options", ethernet(kind4).ipv4(5, 60+100, 6, 0).tcp(15, ack, 100), four, 6, 100, ""},
		{"padding behind the packet", ethernet(kind4).ipv4(5, 20+1, 6, 0).tcp(5, ack, 1).add(make([]byte, 20)...), four, 6, 1, ""},
		{"UDP on IPv4", ethernet(kind4).ipv4(5, 8+33, 17, 0).udp(33), four, 17, 33, ""},
		{"VLAN", ethernet(kind4, 0x8100).ipv4(5, 20+100, 6, 0).tcp(5, ack, 100), four, 6, 100, ""},
		{"VLAN in VLAN", ethernet(kind4, 0x88a8, 0x8100).ipv4(5, 20+100, 6, 0).tcp(5, ack, 100), four, 6, 100, ""},
		{"first fragment", ethernet(kind4).ipv4(5, 8+96, 17, 0x2000).udp(96), four, 17, 96, ""},
		{"TCP on IPv6", ethernet(kind6).ipv6(20+100, 6).tcp(5, ack, 100), six, 6, 100, ""},
		{"UDP on IPv6", ethernet(kind6).ipv6(8+100, 17).udp(100), six, 17, 100, ""},
		{"IPv6 in VLAN", ethernet(kind6, 0x8100).ipv6(20+9, 6).tcp(5, ack, 9), six, 6, 9, ""},
		{"IPv6 options", ethernet(kind6).ipv6(8+16+20+5, 0).add(60, 0, 0, 0, 0, 0, 0, 0).add(6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0).tcp(5, ack, 5), six, 6, 5, ""},
		{"IPv6 authentication", ethernet(kind6).ipv6(24+20+5, 51).add(6, 4).add(make([]byte, 22)...).tcp(5, ack, 5), six, 6, 5, ""},
		{"IPv6 first fragment", ethernet(kind6).ipv6(8+8+5, 44).add(17, 0, 0, 1, 0, 0, 0, 0).udp(5), six, 17, 5, ""},
		// Lengths of 0 are those of buffers above 64 KB: all that is there is payload.
		{"no length, IPv6", ethernet(kind6).ipv6(0, 6).tcp(5, ack, 300), six, 6, 300, ""},

		{"a bare acknowledgement", ethernet(kind4).ipv4(5, 20, 6, 0).tcp(5, ack, 0), four, 6, 0, "nothing"},
		{"VLAN in VLAN in VLAN", ethernet(kind4, 0x8100, 0x8100, 0x8100).ipv4(5, 20+100, 6, 0).tcp(5, ack, 100), four, 6, 0, "other"},
		{"ARP", ethernet(0x0806).add(make([]byte, 28)...), four, 0, 0, "other"},
		{"ICMP", ethernet(kind4).ipv4(5, 8, 1, 0).add(make([]byte, 8)...), four, 0, 0, "other"},
		{"later fragment", ethernet(kind4).ipv4(5, 96, 17, 0x2001).udp(88), four, 0, 0, "fragment"},
		{"IPv6 later fragment", ethernet(kind6).ipv6(8+8+5, 44).add(17, 0, 1, 1, 0, 0, 0, 0).udp(5), six, 0, 0, "fragment"},
		{"cut in IPv4", ethernet(kind4, 0x8100).ipv4(5, 100, 6, 0)[:18+19], four, 0, 0, "cut"},
		{"cut in IPv6", ethernet(kind6, 0x8100).ipv6(100, 6)[:18+39], six, 0, 0, "cut"},
		{"cut in TCP", ethernet(kind4).ipv4(5, 20+100, 6, 0).tcp(5, ack, 0)[:14+20+19], four, 0, 0, "cut"},
		{"cut in TCP options", ethernet(kind4).ipv4(5, 20, 6, 0).tcp(8, ack, 0)[:14+20+20], four, 0, 0, "cut"},
		{"cut in UDP", ethernet(kind4).ipv4(5, 8, 17, 0).udp(0)[:14+20+7], four, 0, 0, "cut"},
		{"cut in VLAN", ethernet(0x8100)[:14], four, 0, 0, "cut"},
		{"IPv4 header too short", ethernet(kind4).ipv4(4, 40, 6, 0).tcp(5, ack, 50), four, 0, 0, "cut"},
		{"TCP header too short", ethernet(kind4).ipv4(5, 120, 6, 0).tcp(4, ack, 104), four, 0, 0, "cut"},
		{"IPv6 in name only", ethernet(kind6).ipv4(5, 120, 6, 0).tcp(5, ack, 100), four, 0, 0, "cut"},
		{"IPv6 options that go too far", ethernet(kind6).ipv6(20, 0).add(6, 200, 0, 0, 0, 0, 0, 0).tcp(5, ack, 5), six, 0, 0, "cut"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(c.p) <= 14 {
				c.p = c.p.add(0) // the kernel refuses less
			}
			run(t, o, c.p)
			counts, err := o.Counts()
			require.NoError(t, err)
			seen := map[string]uint64{"other": counts.Other - before.Other, "cut": counts.Cut - before.Cut, "fragment": counts.Fragments - before.Fragments}
			opened := counts.Opened - before.Opened
			before = counts
			list := o.flows(t)
			var k observeKey
			for all := o.objects.Flows.Iterate(); all.Next(&k, &observeState{}); {
				require.NoError(t, o.objects.Flows.Delete(&k))
			}
			if c.none != "" {
				require.Empty(t, list)
				for name, n := range seen {
					require.Equal(t, name == c.none, n == 1, "%s: %d", name, n)
				}
				return
			}
			require.Equal(t, map[string]uint64{"other": 0, "cut": 0, "fragment": 0}, seen)
			require.Len(t, list, 1)
			r := list[0]
			require.Equal(t, c.bytes, r.Bytes)
			require.Equal(t, uint64(1), r.Packets)
			require.Equal(t, c.protocol, r.Protocol)
			port := uint16(80)
			if c.protocol == flow.UDP {
				port = 53
			}
			require.Equal(t, netip.AddrPortFrom(netip.MustParseAddr(c.from[0]), 40000), r.Source)
			require.Equal(t, netip.AddrPortFrom(netip.MustParseAddr(c.from[1]), port), r.Destination)
			require.Equal(t, uint64(1), opened)
		})
	}
}

func data(flags byte, payload int) packet {
	return ethernet(0x0800).ipv4(5, 20+payload, 6, 0).tcp(5, flags, payload)
}

// next reads a record that is there.
func next(t testing.TB, o *Observer) flow.Record {
	t.Helper()
	o.SetDeadline(time.Now().Add(10 * time.Second))
	r, err := o.Read()
	require.NoError(t, err)
	return r
}

func nothing(t testing.TB, o *Observer) {
	t.Helper()
	o.SetDeadline(time.Now().Add(-time.Second))
	_, err := o.Read()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// A connection opens, sends, is told of at each step, falls silent, sends again, and closes.
func TestLifeOfFlow(t *testing.T) {
	o := open(t, Options{Flows: 1024, Step: 1000, Idle: 50 * time.Millisecond})
	run(t, o, data(syn, 0))
	run(t, o, data(ack, 0))
	run(t, o, data(ack, 600))
	nothing(t, o)
	run(t, o, data(ack, 600))
	r := next(t, o)
	require.Equal(t, flow.Running, r.End)
	require.Equal(t, uint64(1200), r.Bytes)
	require.Equal(t, flow.ClientSide, r.Side)
	run(t, o, data(ack, 700)) // 1900: the next step is at 2200
	nothing(t, o)

	time.Sleep(60 * time.Millisecond)
	run(t, o, data(ack, 0)) // nothing is sent: neither an end nor a beginning
	nothing(t, o)
	run(t, o, data(ack, 10))
	r = next(t, o)
	require.Equal(t, flow.Idle, r.End)
	require.Equal(t, uint64(1900), r.Bytes)
	require.Equal(t, uint64(3), r.Packets)
	run(t, o, data(ack|fin, 5))
	r = next(t, o)
	require.Equal(t, flow.Finished, r.End)
	require.Equal(t, uint64(15), r.Bytes)
	require.Equal(t, flow.ClientSide, r.Side, "the same connection")
	run(t, o, data(ack, 0))     // the last acknowledgement
	run(t, o, data(ack|fin, 5)) // sent again
	run(t, o, data(ack, 700))
	nothing(t, o)

	// A server answers; its connection is used again before anybody saw its end.
	run(t, o, data(syn|ack, 0))
	run(t, o, data(ack, 50))
	run(t, o, data(syn|ack, 0))
	r = next(t, o)
	require.Equal(t, flow.Finished, r.End)
	require.Equal(t, flow.ServerSide, r.Side)
	run(t, o, data(ack|fin, 0)) // no payload: no flow
	nothing(t, o)
	counts, err := o.Counts()
	require.NoError(t, err)
	require.Equal(t, uint64(3), counts.Opened)
	require.Len(t, o.flows(t), 1)
	time.Sleep(60 * time.Millisecond)
	ended, evicted, err := o.Sweep()
	require.NoError(t, err)
	require.Zero(t, evicted)
	require.Empty(t, ended)
	require.Empty(t, o.flows(t))
}

// Two processors that see the first packet of a flow at once count all bytes of it.
func TestTwoProcessors(t *testing.T) {
	o := open(t, Options{})
	const each = 50_000
	var group errgroup.Group
	for range 2 {
		group.Go(func() error {
			_, err := o.objects.Observe.Run(&ebpf.RunOptions{Data: data(ack, 1000), Repeat: each})
			return err
		})
	}
	require.NoError(t, group.Wait())
	list := o.flows(t)
	require.Len(t, list, 1)
	require.EqualValues(t, 2*each*1000, list[0].Bytes)
}

// A flow that sends nothing more is taken from the map.
func TestSweep(t *testing.T) {
	o := open(t, Options{Flows: 1024, Idle: 50 * time.Millisecond})
	run(t, o, data(ack, 600))
	run(t, o, ethernet(0x0800).ipv4(5, 8+33, 17, 0).udp(33))
	ended, _, err := o.Sweep()
	require.NoError(t, err)
	require.Empty(t, ended)
	require.Len(t, o.flows(t), 2)
	time.Sleep(60 * time.Millisecond)
	run(t, o, ethernet(0x0800).ipv4(5, 8+33, 17, 0).udp(33))
	require.Equal(t, uint64(33), next(t, o).Bytes)
	ended, evicted, err := o.Sweep()
	require.NoError(t, err)
	require.Len(t, ended, 1)
	require.Equal(t, flow.Idle, ended[0].End)
	require.Equal(t, uint64(600), ended[0].Bytes)
	require.Len(t, o.flows(t), 1)
	require.Zero(t, evicted)
}

// Of more flows than the map holds, some, old ones, make room, and are counted.
func TestMapIsFull(t *testing.T) {
	const many, room = 5000, 1024
	o := open(t, Options{Flows: room, Gap: time.Hour})
	p := data(ack, 10)
	for i := range many {
		binary.BigEndian.PutUint16(p[34:], uint16(1024+i))
		_, err := o.objects.Observe.Run(&ebpf.RunOptions{Data: p})
		require.NoError(t, err)
	}
	left := o.flows(t)
	counts, err := o.Counts()
	require.NoError(t, err)
	require.Equal(t, uint64(many), counts.Opened)
	_, evicted, err := o.Sweep()
	require.NoError(t, err)
	require.Equal(t, uint64(many-len(left)), evicted)
	require.Zero(t, counts.Unkept)
	require.LessOrEqual(t, len(left), room)
	last, old := 0, 0
	for _, r := range left {
		if r.Source.Port() >= 1024+many-100 {
			last++
		}
		if r.Source.Port() < 1024+many/2 {
			old++
		}
	}
	require.Equal(t, 100, last, "the newest are there")
	require.Less(t, old, room/5, "of the older half few are")
}

// Records that find no room in the ring buffer are counted; the others are whole.
func TestRingIsFull(t *testing.T) {
	o := open(t, Options{Flows: 1024, Ring: os.Getpagesize()})
	const many = 100
	for range many {
		run(t, o, data(syn|fin, 10))
	}
	counts, err := o.Counts()
	require.NoError(t, err)
	require.NotZero(t, counts.Lost)
	for range many - counts.Lost {
		require.Equal(t, uint64(10), next(t, o).Bytes)
	}
	nothing(t, o)
	run(t, o, data(syn|fin, 11))
	require.Equal(t, uint64(11), next(t, o).Bytes, "there is room again")
}

// The program calls nothing that stores to a packet; run checks the fields of its context.
func TestProgramOnlyReads(t *testing.T) {
	spec, err := loadObserve()
	require.NoError(t, err)
	reads := map[asm.BuiltinFunc]bool{
		asm.FnMapLookupElem: true, asm.FnMapUpdateElem: true, asm.FnMapDeleteElem: true, asm.FnKtimeGetNs: true, asm.FnSkbLoadBytes: true, asm.FnRingbufOutput: true,
	}
	calls := 0
	for _, in := range spec.Programs["observe"].Instructions {
		if in.IsBuiltinCall() {
			calls++
			require.True(t, reads[asm.BuiltinFunc(in.Constant)], "%v", in)
		}
	}
	require.NotZero(t, calls)
}

// CPU time, since the machine may be busy with other things.
func BenchmarkProgram(b *testing.B) {
	o := open(b, Options{})
	p := data(ack, 1448)
	run(b, o, p)
	b.ResetTimer()
	before := cputime.Process()
	_, err := o.objects.Observe.Run(&ebpf.RunOptions{Data: p, Repeat: uint32(b.N)})
	require.NoError(b, err)
	b.ReportMetric((cputime.Process()-before)*1e9/float64(b.N), "cpu-ns/packet")
}

func TestRefusedOptions(t *testing.T) {
	_, err := Open(Options{Flows: -1})
	require.ErrorContains(t, err, "want none below 0")
}
