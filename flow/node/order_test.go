package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// pinsOf is a folder in a bpffs of the test's own.
func pinsOf(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Skipf("no bpffs here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return filepath.Join(dir, "sigma-flow")
}

// openOrder loads the program without attaching it.
func openOrder(t testing.TB, thresholds flow.Thresholds) *orderObjects {
	t.Helper()
	return openOrderIdle(t, thresholds, 0)
}

func openOrderIdle(t testing.TB, thresholds flow.Thresholds, idle time.Duration) *orderObjects {
	t.Helper()
	if err := missing(); err != nil {
		t.Skipf("no BPF here: %v", err)
	}
	o := OrderOptions{Uplink: "none", Rate: 1e9, Thresholds: thresholds, Pins: pinsOf(t), idle: idle}
	require.NoError(t, o.fill())
	_, err := makePins(o.Pins)
	require.NoError(t, err)
	objects, err := o.load(false)
	require.NoError(t, err)
	t.Cleanup(func() { _ = objects.Close() }) // the test has ended
	_, err = objects.set(orderBands{}, thresholds)
	require.NoError(t, err)
	return objects
}

func turnOn(t testing.TB, o OrderOptions) (id uint64) {
	t.Helper()
	id, err := TurnOn(o)
	require.NoError(t, err)
	return id
}

func refusesOrder(t testing.TB, o OrderOptions, want string) {
	t.Helper()
	_, err := TurnOn(o)
	require.ErrorContains(t, err, want, fmt.Sprint(o))
}

// bandOf sends a packet through the program and returns its band. All but its priority is as it was.
func bandOf(t testing.TB, o *orderObjects, p packet) int {
	t.Helper()
	before := make([]byte, 192)
	binary.NativeEndian.PutUint32(before[8:], 5)
	binary.NativeEndian.PutUint32(before[32:], 6)
	binary.NativeEndian.PutUint32(before[48:], 7)
	after, out := make([]byte, 192), make([]byte, len(p)+256)
	options := ebpf.RunOptions{Data: p, DataOut: out, Context: before, ContextOut: after}
	verdict, err := o.Order.Run(&options)
	require.NoError(t, err)
	require.Equal(t, ^uint32(0), verdict, "go on with the next program")
	require.Equal(t, []byte(p), options.DataOut)
	require.Equal(t, before[8:12], after[8:12], "mark")
	require.Equal(t, before[48:68], after[48:68], "cb")
	return int(binary.NativeEndian.Uint32(after[32:])) - int(classOf(0))
}

func data4(flags byte, payload int) packet {
	return ethernet(0x0800).ipv4(5, 20+payload, 6, 0).tcp(5, flags, payload)
}

// The program's bands are those of flow.Thresholds for what the flow has sent before.
func TestOrderBands(t *testing.T) {
	for _, thresholds := range []flow.Thresholds{{1}, {1000}, {999, 1000, 1001}, {10, 100, 1000, 2000, 3000, 4000, 5000}} {
		o := openOrder(t, thresholds)
		bytes := int64(0)
		for i, size := range []int{1, 9, 0, 90, 900, 0, 1, 998, 1000, 1448, 1448} {
			require.Equal(t, thresholds.Band(bytes), bandOf(t, o, data4(ack, size)), "%v: packet %d after %d bytes", thresholds, i, bytes)
			bytes += int64(size)
		}
		require.Equal(t, 0, bandOf(t, o, data4(syn, 0)), "another connection")
		require.Equal(t, 0, bandOf(t, o, data4(ack, 10)))
		arp := append(ethernet(0x0806), make([]byte, 28)...)
		require.Equal(t, len(thresholds)/2, bandOf(t, o, arp), "what is no flow")
	}
}

// All kinds of packets whose flow the observer finds, the order finds too: both parse by the same code.
func TestOrderKinds(t *testing.T) {
	o := openOrder(t, flow.Thresholds{50})
	for name, p := range map[string]packet{
		"IPv4 UDP": ethernet(0x0800).ipv4(5, 8+60, 17, 0).udp(60), "VLAN": ethernet(0x0800, 0x8100).ipv4(15, 20+60, 6, 0).tcp(5, ack, 60),
		"IPv6": ethernet(0x86dd).ipv6(20+60, 6).tcp(5, ack, 60),
	} {
		require.Equal(t, 0, bandOf(t, o, p), name)
		require.Equal(t, 1, bandOf(t, o, p), name)
	}
}

// New thresholds count for the next packet of flows that run.
func TestOrderChanges(t *testing.T) {
	o := openOrder(t, flow.Thresholds{100, 200, 300})
	require.Equal(t, 0, bandOf(t, o, data4(ack, 250)))
	require.Equal(t, 2, bandOf(t, o, data4(ack, 1)))
	before := inForce(t, o)
	id, err := o.set(before, flow.Thresholds{1000})
	require.NoError(t, err)
	require.Equal(t, 0, bandOf(t, o, data4(ack, 1)))
	after := inForce(t, o)
	require.EqualValues(t, 2, after.Sequence)
	require.Equal(t, id, after.Id)
	require.Greater(t, id, before.Id)
}

// Two processors that send one flow count all of it, where both see its first packet at once too.
func TestOrderTwoProcessors(t *testing.T) {
	o := openOrder(t, flow.Thresholds{100})
	const each = 200_000
	var group errgroup.Group
	for range 2 {
		group.Go(func() error {
			_, err := o.Order.Run(&ebpf.RunOptions{Data: data4(ack, 1000), Repeat: each})
			return err
		})
	}
	require.NoError(t, group.Wait())
	var k orderKey
	var p orderProgress
	require.True(t, o.Flows.Iterate().Next(&k, &p))
	require.EqualValues(t, 2*each*1000, p.Bytes)
}

func TestOrderOnlySetsPriority(t *testing.T) {
	spec, err := loadOrder()
	require.NoError(t, err)
	reads := map[asm.BuiltinFunc]bool{asm.FnMapLookupElem: true, asm.FnMapUpdateElem: true, asm.FnJiffies64: true, asm.FnSkbLoadBytes: true}
	calls := 0
	for _, name := range []string{"order", "acknowledged"} {
		for _, in := range spec.Programs[name].Instructions {
			if in.IsBuiltinCall() {
				calls++
				require.True(t, reads[asm.BuiltinFunc(in.Constant)], "%s: %v", name, in)
			}
		}
	}
	require.NotZero(t, calls)
}

// CPU time, since the machine may be busy with other things. The flow is beyond the first band, where hints count.
func BenchmarkOrder(b *testing.B) {
	for name, h := range map[string]flow.Hints{"none": nil, "hint": hintOf("10.0.0.1", 80, 1e9), "scope": nil, "dscp that is there": nil, "acknowledgement": nil} {
		b.Run(name, func(b *testing.B) {
			o := openOrder(b, flow.Thresholds{100_000, 1_000_000, 10_000_000})
			hint(b, o, h)
			p, program := data4(ack, 1448), o.Order
			switch name {
			case "scope":
				inScope(b, o, "10.0.0.1")
			case "dscp that is there": // as it is from the second time on
				setDSCP(b, o, flow.Thresholds{100_000, 1_000_000, 10_000_000})
				program = o.Mark
			case "acknowledgement":
				p, program = reply(0, 1), o.Acknowledged
			}
			for range 100 {
				bandOf(b, o, data4(ack, 1448))
			}
			b.ResetTimer()
			before := cputime.Process()
			_, err := program.Run(&ebpf.RunOptions{Data: p, Repeat: uint32(b.N)})
			require.NoError(b, err)
			b.ReportMetric((cputime.Process()-before)*1e9/float64(b.N), "cpu-ns/packet")
		})
	}
}

// An order goes on when the process that turned it on has ended, takes new settings, counts what bands send, and
// leaves the uplink as it was found.
func TestOrderOnUplink(t *testing.T) {
	bed := bedOf(t)
	pins := pinsOf(t)
	nodetest.Listen(t, bed.Peer, nodetest.AddressPeer+":9000")
	require.NoError(t, nodetest.Within(bed.Node, func() error {
		before := state(t)
		up, err := netlink.LinkByName("up0")
		require.NoError(t, err)
		o := OrderOptions{Uplink: "up0", Rate: 200e6, Thresholds: flow.Thresholds{20_000, 200_000}, Pins: pins}
		_, err = ReadOrder(pins)
		require.ErrorIs(t, err, ErrNoOrder)
		turnOn(t, o)
		require.Equal(t, 2, programs(t, up.Attrs().Index), "nothing but the pins holds them")

		send := func(size int64) {
			_, err := nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", size, 1)
			require.NoError(t, err)
		}
		send(10_000)
		s, err := ReadOrder(pins)
		require.NoError(t, err)
		require.Equal(t, "up0", s.Uplink)
		require.InEpsilon(t, 200e6, s.Rate, .001)
		require.InEpsilon(t, DefaultFloor, s.Floor, .001)
		require.Equal(t, o.Thresholds, s.Thresholds)
		require.True(t, s.Shaping)
		require.Len(t, s.Bands, 3)
		require.Greater(t, s.Bands[0].Bytes, uint64(10_000))
		require.Zero(t, s.Bands[2].Packets)
		send(1_000_000)
		s, err = ReadOrder(pins)
		require.NoError(t, err)
		require.Greater(t, s.Bands[1].Bytes, uint64(100_000))
		require.Greater(t, s.Bands[2].Bytes, uint64(700_000))

		require.Zero(t, s.Unseen)
		require.NotZero(t, s.NoFlow, "ARP")
		checkClasses(t, up, 200e6, DefaultFloor)

		was := s.Bands[2].Bytes
		o.Thresholds, o.Rate, o.Floor = flow.Thresholds{2_000_000}, 100e6, .01
		turnOn(t, o)
		require.Equal(t, 2, programs(t, up.Attrs().Index))
		send(1_000_000)
		s, err = ReadOrder(pins)
		require.NoError(t, err)
		require.EqualValues(t, 2, s.Sequence)
		require.InEpsilon(t, 100e6, s.Rate, .001)
		require.InEpsilon(t, .01, s.Floor, .001)
		require.Len(t, s.Bands, 2)
		require.Less(t, s.Bands[1].Bytes, was+100_000, "all in the first band")

		checkClasses(t, up, 100e6, .01)
		o.Uplink = "pod1"
		refusesOrder(t, o, "turn it off first")
		require.ErrorIs(t, TurnOff(pins, s.ID+1), ErrOtherOrder)
		require.NoError(t, nodetest.Within(bed.Peer, func() error {
			require.ErrorContains(t, TurnOff(pins, 0), "this order is of another network namespace")
			_, err := ReadOrder(pins)
			require.ErrorContains(t, err, "this order is of another network namespace")
			o.Uplink = "eth0"
			refusesOrder(t, o, "this order is of another network namespace")
			return nil
		}))
		require.NoError(t, TurnOff(pins, 0))
		require.ErrorIs(t, TurnOff(pins, 0), ErrNoOrder)
		require.Equal(t, before, state(t), "nothing is left behind")
		require.NoDirExists(t, pins)
		return nil
	}))
}

// checkClasses: earlier bands go first, each has its floor, and all together the rate; a burst lasts a millisecond.
func checkClasses(t testing.TB, up netlink.Link, rate, floor float64) {
	t.Helper()
	list, err := netlink.ClassList(up, netlink.HANDLE_NONE)
	require.NoError(t, err)
	classes := map[uint32]*netlink.HtbClass{}
	for _, c := range list {
		classes[c.Attrs().Handle] = c.(*netlink.HtbClass)
	}
	require.Len(t, classes, flow.MostBands+2)
	all := classes[netlink.MakeHandle(ours, 1)]
	require.EqualValues(t, rate/8, all.Rate)
	for band := range flow.MostBands {
		c := classes[classOf(band)]
		require.EqualValues(t, band, c.Prio)
		require.InEpsilon(t, rate*floor/8, c.Rate, .001)
		require.EqualValues(t, rate/8, c.Ceil)
		require.InEpsilon(t, float64(netlink.Xmittime(c.Ceil, uint32(max(rate/8/1000, 2*quantum)))), float64(c.Cbuffer), .01)
	}
	require.EqualValues(t, 4, classes[classOf(unseen)].Prio)
}

// Rates that the library or the kernel could get wrong arrive as they are.
func TestOrderRates(t *testing.T) {
	bed := bedOf(t)
	pins := pinsOf(t)
	require.NoError(t, nodetest.Within(bed.Node, func() error {
		up, err := netlink.LinkByName("up0")
		require.NoError(t, err)
		before := state(t)
		for _, rate := range []float64{1e6, 1e9, 34_359_738_360, 100e9, 1e12} {
			turnOn(t, OrderOptions{Uplink: "up0", Rate: rate, Thresholds: flow.Thresholds{1000}, Pins: pins})
			checkClasses(t, up, rate, DefaultFloor)
		}
		// 2³² bytes a second would be 0: a byte more.
		turnOn(t, OrderOptions{Uplink: "up0", Rate: 8 * (1 << 32), Thresholds: flow.Thresholds{1000}, Pins: pins})
		checkClasses(t, up, 8*(1<<32)+8, DefaultFloor)
		require.NoError(t, TurnOff(pins, 0))
		require.Equal(t, before, state(t))
		// The kernel raises a queue of 0 packets.
		require.NoError(t, netlink.LinkSetTxQLen(up, 0))
		turnOn(t, OrderOptions{Uplink: "up0", Rate: 1e9, Thresholds: flow.Thresholds{1000}, Pins: pins})
		require.NoError(t, TurnOff(pins, 0))
		up, err = netlink.LinkByName("up0")
		require.NoError(t, err)
		require.Zero(t, up.Attrs().TxQLen)
		return nil
	}))
}

// A program that was there before and ends the chain keeps no packet from the order; one that comes before it later shows.
func TestOrderBesideOthers(t *testing.T) {
	bed := bedOf(t)
	pins := pinsOf(t)
	nodetest.Listen(t, bed.Peer, nodetest.AddressPeer+":9000")
	require.NoError(t, nodetest.Within(bed.Node, func() error {
		up, err := netlink.LinkByName("up0")
		require.NoError(t, err)
		attach := func(anchor link.Anchor) link.Link {
			pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
			require.NoError(t, err)
			defer func() { require.NoError(t, pass.Close()) }() // the link has it
			l, err := link.AttachTCX(link.TCXOptions{Interface: up.Attrs().Index, Program: pass, Attach: ebpf.AttachTCXEgress, Anchor: anchor})
			require.NoError(t, err)
			return l
		}
		send := func() OrderStatus {
			_, err := nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", 100_000, 1)
			require.NoError(t, err)
			s, err := ReadOrder(pins)
			require.NoError(t, err)
			return s
		}
		first := attach(nil)
		turnOn(t, OrderOptions{Uplink: "up0", Rate: 200e6, Thresholds: flow.Thresholds{20_000}, Pins: pins})
		s := send()
		require.Zero(t, s.Unseen)
		require.Greater(t, s.Bands[1].Bytes, uint64(50_000))
		before := attach(link.Head())
		s = send()
		require.NotZero(t, s.Unseen)
		require.NoError(t, errors.Join(first.Detach(), first.Close(), before.Detach(), before.Close(), TurnOff(pins, 0)))
		return nil
	}))
}

// What somebody has put on the uplink stays, whatever goes wrong.
func TestOrderLeavesAlone(t *testing.T) {
	bed := bedOf(t)
	pins := pinsOf(t)
	require.NoError(t, nodetest.Within(bed.Node, func() error {
		up, err := netlink.LinkByName("up0")
		require.NoError(t, err)
		o := OrderOptions{Uplink: "up0", Rate: 200e6, Thresholds: flow.Thresholds{20_000}, Pins: pins}
		foreign := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: up.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT})
		require.NoError(t, netlink.QdiscAdd(foreign))
		before := state(t)
		refusesOrder(t, o, "somebody has put the queueing discipline htb 1:0 there")
		require.Equal(t, before, state(t))
		require.NoDirExists(t, pins)

		// The order is on, and then somebody else replaces HTB: turning it off leaves that one.
		require.NoError(t, netlink.QdiscDel(foreign))
		turnOn(t, o)
		require.NoError(t, netlink.QdiscReplace(foreign))
		s, err := ReadOrder(pins)
		require.NoError(t, err)
		require.False(t, s.Shaping)
		refusesOrder(t, o, "it is left alone")
		require.NoError(t, TurnOff(pins, 0))
		require.Equal(t, before, state(t))
		require.Zero(t, programs(t, up.Attrs().Index))
		require.NoError(t, netlink.QdiscDel(foreign))

		// A pin that is in the way: everything is undone.
		clean := state(t)
		require.NoError(t, os.Mkdir(pins, 0o700))
		require.NoError(t, os.Mkdir(filepath.Join(pins, pinSent), 0o700))
		require.NoError(t, os.Mkdir(filepath.Join(pins, pinSent, "in-the-way"), 0o700))
		refusesOrder(t, o, pinSent)
		require.Equal(t, clean, state(t))
		require.Zero(t, programs(t, up.Attrs().Index))
		require.NoError(t, os.RemoveAll(pins))
		require.NoError(t, os.Mkdir(pins, 0o700))
		require.NoError(t, os.Mkdir(filepath.Join(pins, "others"), 0o700))
		refusesOrder(t, o, "it has others, which is none of an order")
		require.NoError(t, os.RemoveAll(pins))
		require.NoError(t, os.Mkdir(pins, 0o700))
		unlock, err := lock(pins)
		require.NoError(t, err)
		refusesOrder(t, o, "another process is changing this order")
		unlock()

		// The interface goes away with the order on it, and another one comes.
		turnOn(t, o)
		require.NoError(t, netlink.LinkDel(up))
		s, err = ReadOrder(pins)
		require.NoError(t, err)
		require.Empty(t, s.Uplink)
		o.Uplink = "pod2"
		turnOn(t, o)
		s, err = ReadOrder(pins)
		require.NoError(t, err)
		require.Equal(t, "pod2", s.Uplink)
		require.NoError(t, TurnOff(pins, 0))
		return nil
	}))
}

func TestOrderRefuses(t *testing.T) {
	good := OrderOptions{Uplink: "lo", Rate: 1e9, Thresholds: flow.Thresholds{1000}, Pins: filepath.Join(t.TempDir(), "pins")}
	for want, change := range map[string]func(*OrderOptions){
		"uplink: none is named":    func(o *OrderOptions) { o.Uplink = "" },
		"rate: 0 bit/s":            func(o *OrderOptions) { o.Rate = 0 },
		"floor: 0.2 of the rate":   func(o *OrderOptions) { o.Floor = .2 },
		"gap: 19ms":                func(o *OrderOptions) { o.Gap = 19 * time.Millisecond },
		"gap: 1h0m0.001s":          func(o *OrderOptions) { o.Gap = time.Hour + time.Millisecond },
		"flows: -1":                func(o *OrderOptions) { o.Flows = -1 },
		"thresholds: none":         func(o *OrderOptions) { o.Thresholds = nil },
		"threshold 2: 1k is equal": func(o *OrderOptions) { o.Thresholds = flow.Thresholds{1000, 1000} },
		"uplink never: ":           func(o *OrderOptions) { o.Uplink = "never" },
		"/pins is in no bpffs; want a new folder inside one": func(*OrderOptions) {},
	} {
		o := good
		change(&o)
		refusesOrder(t, o, want)
	}
}
