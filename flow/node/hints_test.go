package node

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
)

// hint puts sizes in force.
func hint(t testing.TB, o *orderObjects, h flow.Hints) {
	t.Helper()
	now := inForce(t, o)
	require.NoError(t, setHints(o.Hints, o.inForce(), now, h))
}

func hintOf(address string, port uint16, size int64) flow.Hints {
	return flow.Hints{{Address: netip.MustParseAddr(address), Port: port}: size}
}

// hintCases: the sizes that are declared, and what a flow from 10.0.0.1:40000 to 10.0.0.2:80 then has.
var hintCases = []struct {
	name  string
	hints flow.Hints
	size  int64
}{
	{"none", nil, 0},
	{"the other side's port", hintOf("10.0.0.1", 80, 7000), 7000},
	{"its own port", hintOf("10.0.0.1", 40000, 900_000), 900_000},
	{"less than the first band", hintOf("10.0.0.1", 80, 7), 7},
	{"the size of a band", hintOf("10.0.0.1", 80, 5000), 5000},
	{"one byte more", hintOf("10.0.0.1", 80, 5001), 5001},
	{"another port", hintOf("10.0.0.1", 81, 900_000), 0},
	{"the receiver's address", hintOf("10.0.0.2", 80, 900_000), 0},
	{"both ports: its own counts", flow.Hints{{Address: netip.MustParseAddr("10.0.0.1"), Port: 80}: 900_000, {Address: netip.MustParseAddr("10.0.0.1"), Port: 40000}: 2500}, 2500},
}

// wrongBands counts packets whose band is not that of flow.Thresholds, over sequences that pass all bands.
func wrongBands(t testing.TB, o *orderObjects, thresholds flow.Thresholds) (wrong []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range hintCases {
		hint(t, o, c.hints)
		sent := int64(0)
		bandOf(t, o, data4(syn, 0)) // another connection
		for sent < 2*thresholds[len(thresholds)-1] {
			size := 1 + rng.IntN(1448)
			if got, want := bandOf(t, o, data4(ack, size)), thresholds.Hinted(sent, c.size); got != want {
				wrong = append(wrong, fmt.Sprintf("%s: after %d bytes band %d, want %d", c.name, sent, got, want))
			}
			sent += int64(size)
		}
	}
	return wrong
}

var hintBands = flow.Thresholds{2000, 5000, 20_000}

// The program's bands are those of flow.Thresholds for what the flow has sent and what was declared of it.
func TestOrderHints(t *testing.T) {
	o := openOrder(t, hintBands)
	require.Empty(t, wrongBands(t, o, hintBands))
	// All kinds of packets: IPv6, UDP, VLAN.
	for name, c := range map[string]struct {
		packet packet
		from   string
		port   uint16
	}{
		"IPv4 UDP": {ethernet(0x0800).ipv4(5, 8+2000, 17, 0).udp(2000), "10.0.0.1", 53},
		"VLAN":     {ethernet(0x0800, 0x8100).ipv4(15, 20+2000, 6, 0).tcp(5, ack, 2000), "10.0.0.1", 80},
		"IPv6":     {ethernet(0x86dd).ipv6(20+2000, 6).tcp(5, ack, 2000), "fd00::1", 80},
	} {
		o := openOrder(t, hintBands)
		from := netip.MustParseAddr(c.from)
		if from.Is6() {
			from = netip.AddrFrom16([16]byte(c.packet[22:38]))
		}
		hint(t, o, flow.Hints{{Address: from, Port: c.port}: 1e6})
		require.Equal(t, 0, bandOf(t, o, c.packet), name)
		require.Equal(t, 3, bandOf(t, o, c.packet), name)
	}
}

// Hints that come, change and go count for the next packet of flows that run; thresholds may change meanwhile.
func TestOrderHintsChange(t *testing.T) {
	o := openOrder(t, hintBands)
	require.Equal(t, 0, bandOf(t, o, data4(ack, 2000)))
	require.Equal(t, 1, bandOf(t, o, data4(ack, 1)))
	hint(t, o, hintOf("10.0.0.1", 80, 6000))
	require.Equal(t, 2, bandOf(t, o, data4(ack, 1)))
	hint(t, o, hintOf("10.0.0.1", 80, 60_000))
	require.Equal(t, 3, bandOf(t, o, data4(ack, 1)))
	now := inForce(t, o)
	_, err := o.set(now, flow.Thresholds{1000, 100_000})
	require.NoError(t, err)
	require.Equal(t, 1, bandOf(t, o, data4(ack, 1)), "a hint is a size and no band")
	_, err = o.set(now, hintBands)
	require.NoError(t, err)
	hint(t, o, nil)
	require.Equal(t, 1, bandOf(t, o, data4(ack, 1)))
	left, err := listHints(o.Hints)
	require.NoError(t, err)
	require.Empty(t, left)
}

// plant loads the order's program with an error in the place of a text of the C file.
func plant(t testing.TB, thresholds flow.Thresholds, old, planted string) *orderObjects {
	t.Helper()
	if _, err := exec.LookPath("clang-14"); err != nil {
		t.Skipf("no compiler here: %v", err)
	}
	text, err := os.ReadFile("order.c")
	require.NoError(t, err)
	header, err := os.ReadFile("packet.h")
	require.NoError(t, err)
	require.True(t, old == "" || bytes.Count(text, []byte(old)) == 1, old)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "packet.h"), header, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "order.c"), []byte(strings.Replace(string(text), old, planted, 1)), 0o600))
	out, err := exec.CommandContext(t.Context(), "clang-14", "-O2", "-g", "-target", "bpfel", "-c", filepath.Join(dir, "order.c"), "-o", filepath.Join(dir, "order.o")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	o := openOrder(t, thresholds) // for the settings
	spec, err := ebpf.LoadCollectionSpec(filepath.Join(dir, "order.o"))
	require.NoError(t, err)
	var objects orderObjects
	require.NoError(t, spec.LoadAndAssign(&objects, nil))
	t.Cleanup(func() { _ = objects.Close() }) // the test has ended
	settings := inForce(t, o)
	require.NoError(t, objects.inForce().write(&settings))
	return &objects
}

// The table finds errors that somebody could make in the C file.
func TestOrderHintsFaults(t *testing.T) {
	for _, c := range []struct{ name, old, planted string }{
		{"none", "", ""},
		{"a hint counts before the first threshold", " && bytes >= set->above[0]", ""},
		{"a hint counts though the bytes are deeper", "if (p->hint > bytes)", "if (p->hint)"},
		{"a hint ends in the next band", "bytes = p->hint - 1", "bytes = p->hint"},
		{"a hint is asked once and for ever", "p->asked != set->hints", "!p->asked"},
		{"the other side's port counts more", ".port = key->source_port", ".port = key->destination_port"},
		{"the receiver's address", "copy16(at.source, key->source)", "copy16(at.source, key->destination)"},
	} {
		planted := plant(t, hintBands, c.old, c.planted)
		wrong := wrongBands(t, planted, hintBands)
		require.Equal(t, c.old != "", len(wrong) > 0, "%s: %v", c.name, wrong)
	}
}

// Sizes that are declared of a pod's flows put them into deeper bands on a real uplink, until they are taken away.
func TestHintsOnUplink(t *testing.T) {
	bed := bedOf(t)
	pins := pinsOf(t)
	require.ErrorIs(t, SetHints(pins, nil), ErrNoOrder)
	require.ErrorContains(t, SetHints(pins, hintOf(nodetest.AddressPod1, 80, 0)), "want 1 to 1T")
	nodetest.Listen(t, bed.Peer, nodetest.AddressPeer+":9000")
	nodetest.Listen(t, bed.Pod2, nodetest.AddressPod2+":8080")
	require.NoError(t, nodetest.Within(bed.Node, func() error {
		before := state(t)
		o := OrderOptions{Uplink: "up0", Rate: 200e6, Thresholds: flow.Thresholds{20_000, 200_000}, Pins: pins}
		turnOn(t, o)
		last := func(send func() error) uint64 { // bytes that the last band sends meanwhile
			was, err := ReadOrder(pins)
			require.NoError(t, err)
			require.NoError(t, send())
			is, err := ReadOrder(pins)
			require.NoError(t, err)
			return is.Bands[2].Bytes - was.Bands[2].Bytes
		}
		client := func() error {
			_, err := nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", 150_000, 1)
			return err
		}
		server := func() error {
			_, err := nodetest.Exchange(bed.Peer, nodetest.AddressPod2+":8080", 8, 150_000)
			return err
		}
		require.Zero(t, last(client))
		hints := flow.Hints{{Address: netip.MustParseAddr(nodetest.AddressPod1), Port: 9000}: 1e6, {Address: netip.MustParseAddr(nodetest.AddressPod2), Port: 8080}: 1e6}
		require.NoError(t, SetHints(pins, hints))
		s, err := ReadOrder(pins)
		require.NoError(t, err)
		require.Equal(t, 2, s.Hints)
		for _, send := range []func() error{client, server} {
			deep := last(send)
			require.Greater(t, deep, uint64(60_000), "after the first band, in the last")
			require.Less(t, deep, uint64(150_000), "the first bytes are in the first band")
		}
		s, err = ReadOrder(pins)
		require.NoError(t, err)
		require.EqualValues(t, 2, s.Hinted)
		o.Thresholds = flow.Thresholds{20_000, 300_000}
		turnOn(t, o) // and the sizes stay
		require.Greater(t, last(client), uint64(60_000))
		require.NoError(t, SetHints(pins, nil))
		require.Zero(t, last(client))

		// The order of an earlier version had no hints: it is replaced, or taken off.
		for _, off := range []bool{false, true} {
			older(t, pins)
			require.NoError(t, SetHints(pins, nil))
			require.Error(t, SetHints(pins, hints))
			if !off {
				turnOn(t, o)
				require.NoError(t, SetHints(pins, hints))
				require.Greater(t, last(client), uint64(60_000))
			}
		}
		require.NoError(t, TurnOff(pins, 0))
		require.Equal(t, before, state(t))
		return nil
	}))
}

// older makes the pins those of an order of the version before hints.
func older(t testing.TB, pins string) {
	t.Helper()
	settings, err := readSettings(pins)
	require.NoError(t, err)
	old, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 96, MaxEntries: 1, Flags: unix.BPF_F_NO_PREALLOC})
	require.NoError(t, err)
	defer func() { require.NoError(t, old.Close()) }() // the pin holds it
	m, err := pinnedSettings(pins)
	require.NoError(t, err)
	at, err := m.place()
	require.NoError(t, err)
	value, err := m.settings.LookupBytes(at)
	require.NoError(t, err)
	m.close()
	require.Greater(t, len(value), 96)
	require.NoError(t, old.Put(uint32(0), value[:96]))
	require.NoError(t, os.Remove(filepath.Join(pins, pinSettings)))
	require.NoError(t, old.Pin(filepath.Join(pins, pinSettings)))
	for _, name := range []string{pinCurrent, pinHints, pinScope} {
		require.NoError(t, os.Remove(filepath.Join(pins, name)))
	}
	counters, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(observeCounterHINTED)})
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(pins, pinCounters)))
	require.NoError(t, errors.Join(counters.Pin(filepath.Join(pins, pinCounters)), counters.Close()))
	is, err := ReadOrder(pins)
	require.NoError(t, err)
	require.True(t, is.Shaping)
	require.Zero(t, is.Hints)
	settings.Hints = 0
	again, err := readSettings(pins)
	require.NoError(t, err)
	require.Equal(t, settings, again)
}

// priority is one that no type of service gives.
const priority = 5

// SO_PRIORITY of a pod does not reach the uplink: a veth pair clears it, and so does forwarding. That of a socket in the
// host's network does.
func TestDeclaredPriority(t *testing.T) {
	bed := bedOf(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 8})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() }) // the test has ended
	// It counts packets by their priority, those above 7 as 0.
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R0, asm.R1, 32, asm.Word),
		asm.JLT.Imm(asm.R0, 8, "small"),
		asm.Mov.Imm(asm.R0, 0),
		asm.StoreMem(asm.RFP, -4, asm.R0, asm.Word).WithSymbol("small"),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("end"),
		asm.Return(),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = program.Close() }) // the link has it
	counted := func(at uint32) (n uint64) {
		require.NoError(t, m.Lookup(at, &n))
		return n
	}
	var up, host netlink.Link
	require.NoError(t, nodetest.Within(bed.Node, func() (err error) {
		if up, err = netlink.LinkByName("up0"); err != nil {
			return err
		}
		host, err = netlink.LinkByName("pod1")
		return err
	}))
	attach := func(l netlink.Link, at ebpf.AttachType) {
		require.NoError(t, nodetest.Within(bed.Node, func() error {
			attached, err := link.AttachTCX(link.TCXOptions{Interface: l.Attrs().Index, Program: program, Attach: at})
			if err == nil {
				t.Cleanup(func() { _ = attached.Close() }) // its interface goes
			}
			return err
		}))
	}
	attach(up, ebpf.AttachTCXEgress)
	attach(host, ebpf.AttachTCXIngress)
	require.NoError(t, sendPriority(bed.Pod1))
	require.Zero(t, counted(priority), "of a pod")
	require.NotZero(t, counted(0))
	require.NoError(t, sendPriority(bed.Node))
	require.EqualValues(t, 1, counted(priority), "of the host")
}

// sendPriority sends a packet from a namespace to the peer by a socket of the priority.
func sendPriority(ns netns.NsHandle) error {
	return nodetest.Within(ns, func() error {
		var set error
		d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY, priority) })
		}}
		c, err := d.Dial("udp", nodetest.AddressPeer+":9")
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("x"))
		return errors.Join(set, err, c.Close())
	})
}

// Both programs load with the two capabilities that the agent has: without CAP_PERFMON the verifier takes less.
func TestPrivileges(t *testing.T) {
	if err := missing(); err != nil {
		t.Skipf("no BPF here: %v", err)
	}
	loaded := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		const netAdmin, bpf = 1 << unix.CAP_NET_ADMIN, 1 << (unix.CAP_BPF - 32)
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		data := [2]unix.CapUserData{{Effective: netAdmin, Permitted: netAdmin}, {Effective: bpf, Permitted: bpf}}
		if err := unix.Capset(&head, &data[0]); err != nil {
			loaded <- err
			return
		}
		loaded <- func() error {
			for _, load := range []func() (*ebpf.CollectionSpec, error){loadObserve, loadOrder} {
				spec, err := load()
				if err != nil {
					return err
				}
				c, err := ebpf.NewCollection(spec)
				if err != nil {
					return err
				}
				c.Close()
			}
			return nil
		}()
	}()
	require.NoError(t, <-loaded)
}
