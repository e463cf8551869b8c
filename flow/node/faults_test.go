package node

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
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
)

// roundsOf each fault; make flow-faults asks for more than the one of the fast suite.
const roundsOf = "SIGMA_ROUNDS"

// A struck is an order while flows pass through it and something fails.
type struck struct {
	testing.TB
	bed    *nodetest.Testbed
	rng    *rand.Rand
	up     netlink.Link
	before string // of the node's interfaces
	o      OrderOptions
	found  map[string]int // what killed agents left, of all rounds
	// others may differ from before at the end: a strike put it there.
	others  bool
	endPod2 func()      // what pod2 sends need not arrive from there on
	noRoute atomic.Bool // for a moment no connection can be made
}

var (
	firstThresholds  = flow.Thresholds{20_000, 200_000}
	secondThresholds = flow.Thresholds{1_000, 50_000, 2_000_000}
)

// orderFaults strike while flows of both pods pass through the uplink.
var orderFaults = []struct {
	name   string
	begin  bool // the strike turns the order on
	strike func(s *struck)
}{
	{"nothing fails", false, func(*struck) {}},
	{"the agent is killed", true, func(s *struck) {
		child, out := s.child("on")
		require.Equal(s, "on", s.line(out))
		s.kill(child)
	}},
	{"the agent is killed while it turns the order on", true, func(s *struck) {
		child, out := s.child("begin")
		require.Equal(s, "begins", s.line(out))
		s.pause(60 * time.Millisecond)
		s.kill(child)
		s.look()
		turnOn(s, s.o)
	}},
	{"the agent is killed while it changes thresholds", false, func(s *struck) {
		child, out := s.child("change")
		require.Equal(s, "changes", s.line(out))
		s.pause(20 * time.Millisecond)
		s.kill(child)
		s.whole()
	}},
	{"the agent is killed while it turns the order off", false, func(s *struck) {
		child, out := s.child("off")
		require.Equal(s, "ends", s.line(out))
		s.pause(20 * time.Millisecond)
		s.kill(child)
		s.look()
		if err := TurnOff(s.o.Pins, 0); !errors.Is(err, ErrNoOrder) {
			require.NoError(s, err)
		}
		require.Equal(s, s.before, state(s), "nothing is left behind")
		require.NoDirExists(s, s.o.Pins)
		turnOn(s, s.o)
	}},
	{"another agent takes over, and the program is replaced", false, func(s *struck) {
		s.o.Gap = 2 * time.Second
		turnOn(s, s.o)
	}},
	{"an agent of another version takes over, with other maps", false, func(s *struck) {
		older(s, s.o.Pins)
		turnOn(s, s.o)
	}},
	{"thresholds change 200 times", false, func(s *struck) {
		for i := range 200 {
			s.o.Thresholds = []flow.Thresholds{firstThresholds, secondThresholds}[i%2]
			turnOn(s, s.o)
			s.whole()
		}
	}},
	{"more flows than the map holds", true, func(s *struck) {
		s.o.Flows = 4
		turnOn(s, s.o)
		m, err := ebpf.LoadPinnedMap(filepath.Join(s.o.Pins, pinFlows), nil)
		require.NoError(s, err)
		require.EqualValues(s, 4, m.MaxEntries())
		require.NoError(s, m.Close())
	}},
	{"the observer beside it has no room for records", false, func(s *struck) {
		o := open(s, Options{Ring: os.Getpagesize(), Gap: time.Minute})
		list, err := Interfaces(nil)
		require.NoError(s, err)
		require.NoError(s, o.Watch(list))
		for i := range 60 {
			require.NoError(s, nodetest.Deliver(s.Context(), s.bed.Pod1, nodetest.AddressPeer+":9000", uint64(i), 2000))
		}
		counts, err := o.Counts()
		require.NoError(s, err)
		require.NotZero(s, counts.Lost, "counted")
		require.NoError(s, o.Close())
	}},
	{"a pod goes away with its veth", false, func(s *struck) {
		s.others = true
		s.endPod2()
		gone, err := netlink.LinkByName("pod2")
		require.NoError(s, err)
		require.NoError(s, netlink.LinkDel(gone))
	}},
	{"the uplink is renamed", false, func(s *struck) {
		require.NoError(s, netlink.LinkSetName(s.up, "wan0"))
		status, err := ReadOrder(s.o.Pins)
		require.NoError(s, err)
		require.Equal(s, "wan0", status.Uplink)
		s.o.Uplink = "wan0"
		turnOn(s, s.o)
		s.before = strings.ReplaceAll(s.before, "up0", "wan0")
	}},
	{"the uplink goes down for a moment", false, func(s *struck) {
		s.noRoute.Store(true)
		require.NoError(s, netlink.LinkSetDown(s.up))
		s.pause(50 * time.Millisecond)
		require.NoError(s, netlink.LinkSetUp(s.up))
	}},
	{"somebody replaces the queueing discipline", false, func(s *struck) {
		s.others = true
		require.NoError(s, netlink.QdiscReplace(netlink.NewHtb(netlink.QdiscAttrs{
			LinkIndex: s.up.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT,
		})))
		status, err := ReadOrder(s.o.Pins)
		require.NoError(s, err)
		require.False(s, status.Shaping, "and it says so")
		refusesOrder(s, s.o, "it is left alone")
	}},
	{"somebody's program comes before it and ends the chain", false, func(s *struck) {
		pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
		require.NoError(s, err)
		l, err := link.AttachTCX(link.TCXOptions{Interface: s.up.Attrs().Index, Program: pass, Attach: ebpf.AttachTCXEgress, Anchor: link.Head()})
		require.NoError(s, err)
		require.NoError(s, nodetest.Deliver(s.Context(), s.bed.Pod1, nodetest.AddressPeer+":9000", 1, 100_000))
		status, err := ReadOrder(s.o.Pins)
		require.NoError(s, err)
		require.NotZero(s, status.Unseen, "and it says so")
		require.NoError(s, errors.Join(l.Detach(), l.Close(), pass.Close()))
	}},
	{"somebody removes the pins", false, func(s *struck) {
		require.NoError(s, os.RemoveAll(s.o.Pins))
		_, err := ReadOrder(s.o.Pins)
		require.ErrorIs(s, err, ErrNoOrder, "and it says so")
		turnOn(s, s.o)
	}},
	{"it is turned off", false, func(s *struck) {
		require.NoError(s, TurnOff(s.o.Pins, 0))
		require.Equal(s, s.before, state(s), "nothing is left behind")
		turnOn(s, s.o)
	}},
}

// pause waits for up to so long.
func (s *struck) pause(most time.Duration) {
	time.Sleep(time.Duration(s.rng.Int64N(int64(most))))
}

// look says what a killed agent has left.
func (s *struck) look() {
	left := "nothing"
	if _, err := os.Stat(s.o.Pins); err == nil {
		left = "pins of maps at most"
	}
	if l, index, err := pinned(s.o.Pins); err == nil {
		left = "a link that is off"
		if index != 0 {
			left = "the program without HTB"
		}
		require.NoError(s, l.Close())
	}
	q, err := root(s.up)
	require.NoError(s, err)
	if isOurs(q) {
		left = "program and HTB"
	}
	s.found[left]++
}

// whole: the thresholds are one of two sets.
func (s *struck) whole() {
	status, err := ReadOrder(s.o.Pins)
	require.NoError(s, err)
	require.Contains(s, []flow.Thresholds{firstThresholds, secondThresholds}, status.Thresholds)
}

const (
	struckChild = "SIGMA_FLOW_NODE_STRUCK"
	struckPins  = "SIGMA_FLOW_NODE_PINS"
)

// child starts an agent in another process.
func (s *struck) child(does string) (*exec.Cmd, *bufio.Scanner) {
	child := exec.CommandContext(s.Context(), os.Args[0], "-test.run", "^TestOrderFaults$")
	child.Env = append(os.Environ(), struckChild+"="+does, struckPins+"="+s.o.Pins)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(s, err)
	require.NoError(s, child.Start())
	return child, bufio.NewScanner(out)
}

func (s *struck) line(out *bufio.Scanner) string {
	require.True(s, out.Scan(), "the child has ended: %v", out.Err())
	return out.Text()
}

func (s *struck) kill(child *exec.Cmd) {
	if err := child.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(s, err)
	}
	_ = child.Wait() // it was killed, or had ended before
}

// act is what the child does, until it is killed.
func act(t *testing.T, does, pins string) {
	o := OrderOptions{Uplink: "up0", Rate: 1e9, Thresholds: firstThresholds, Pins: pins}
	switch does {
	case "on":
		turnOn(t, o)
		fmt.Println("on")
	case "begin":
		fmt.Println("begins")
		turnOn(t, o)
	case "change":
		fmt.Println("changes")
		for i := 0; ; i++ {
			o.Thresholds = []flow.Thresholds{firstThresholds, secondThresholds}[i%2]
			turnOn(t, o)
		}
	case "off":
		fmt.Println("ends")
		require.NoError(t, TurnOff(pins, 0))
	}
	time.Sleep(time.Minute) // it is killed before
}

// Whatever fails while an order is on, all flows arrive byte for byte; the order goes on or says that it does not; and once
// it is turned off, the uplink is as it was found, but for what somebody else has put there.
func TestOrderFaults(t *testing.T) {
	if does := os.Getenv(struckChild); does != "" {
		act(t, does, os.Getenv(struckPins))
		return
	}
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv(roundsOf), "1"))
	require.NoError(t, err, roundsOf)
	for i, fault := range orderFaults {
		t.Run(fault.name, func(t *testing.T) {
			flows, bytes, found := 0, int64(0), map[string]int{}
			for round := range rounds {
				s := &struck{TB: t, found: found, bed: bedOf(t), rng: rand.New(rand.NewPCG(uint64(i), uint64(round)))}
				s.o = OrderOptions{Uplink: "up0", Rate: 1e9, Thresholds: firstThresholds, Pins: pinsOf(t)}
				nodetest.ListenVerify(t, s.bed.Peer, nodetest.AddressPeer+":9000")
				require.NoError(t, nodetest.Within(s.bed.Node, func() error {
					f, b := s.round(fault.begin, fault.strike)
					flows, bytes = flows+f, bytes+b
					return nil
				}), "round %d", round)
			}
			left := ""
			for _, what := range slices.Sorted(maps.Keys(found)) {
				left += fmt.Sprintf("; %s %d×", what, found[what])
			}
			t.Logf("| %s | %d | %d | %.0f | %s |", fault.name, rounds, flows, float64(bytes)/1e6, strings.TrimPrefix(left, "; "))
		})
	}
}

// unmade: there was no way to the peer, and no connection was made.
func unmade(err error) bool {
	var at *net.OpError
	return errors.As(err, &at) && at.Op == "dial" && (errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH))
}

// round returns how many flows arrived, and their bytes.
func (s *struck) round(begin bool, strike func(s *struck)) (int, int64) {
	var err error
	s.up, err = netlink.LinkByName("up0")
	require.NoError(s, err)
	s.before = state(s)
	if !begin {
		turnOn(s, s.o)
	}
	var flows, bytes atomic.Int64
	var end atomic.Bool
	pod2, endPod2 := context.WithCancel(s.Context())
	defer endPod2()
	s.endPod2 = endPod2
	var senders errgroup.Group
	for i := range 6 {
		ctx, from, rng := s.Context(), s.bed.Pod1, rand.New(rand.NewPCG(s.rng.Uint64(), 0))
		if i >= 4 {
			ctx, from = pod2, s.bed.Pod2
		}
		senders.Go(func() error {
			for !end.Load() && ctx.Err() == nil {
				size := int64(math.Pow(10, 2+4*rng.Float64()))
				err := nodetest.Deliver(ctx, from, nodetest.AddressPeer+":9000", rng.Uint64(), size)
				switch {
				case err == nil:
					flows.Add(1)
					bytes.Add(size)
				case ctx.Err() != nil: // pod2 is gone
				case s.noRoute.Load() && unmade(err):
				default:
					return err
				}
			}
			return nil
		})
	}
	s.pause(60 * time.Millisecond)
	strike(s)
	marked := func() (sent uint64) {
		status, err := ReadOrder(s.o.Pins)
		require.NoError(s, err)
		for _, b := range status.Bands {
			sent += b.Packets
		}
		return sent
	}
	was := marked()
	require.NoError(s, nodetest.Deliver(s.Context(), s.bed.Pod1, nodetest.AddressPeer+":9000", 7, 300_000))
	require.Greater(s, marked(), was, "marking goes on")
	s.pause(60 * time.Millisecond)
	end.Store(true)
	require.NoError(s, senders.Wait())
	require.NotZero(s, flows.Load())
	require.NoError(s, TurnOff(s.o.Pins, 0))
	if !s.others {
		require.Equal(s, s.before, state(s), "nothing is left behind")
	}
	require.Zero(s, programs(s, s.up.Attrs().Index))
	require.NoDirExists(s, s.o.Pins)
	return int(flows.Load()), bytes.Load()
}
