package node

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
)

func bedOf(t testing.TB) *nodetest.Testbed {
	t.Helper()
	if err := missing(); err != nil {
		t.Skipf("no BPF here: %v", err)
	}
	return nodetest.New(t)
}

// What the observer sees of real connections is what they have sent; it leaves nothing behind.
func TestRealFlows(t *testing.T) {
	bed := bedOf(t)
	nodetest.Listen(t, bed.Peer, nodetest.AddressPeer+":9000")
	nodetest.Listen(t, bed.Pod2, nodetest.AddressPod2+":8080")
	require.NoError(t, nodetest.Within(bed.Node, func() error {
		found, err := Interfaces(nil)
		require.NoError(t, err)
		require.Len(t, found, 3, "the uplink is a veth here")
		watched, err := Interfaces([]string{"pod1", "pod2"})
		require.NoError(t, err)
		require.True(t, watched[0].Ingress && watched[1].Ingress && watched[0].Veth)
		before := state(t)
		o := open(t, Options{Gap: time.Minute}) // the machine may halt for more than a second
		require.NoError(t, o.Watch(watched))
		require.Equal(t, before, state(t), "no queueing discipline and no filter")

		seen := map[netip.AddrPort]flow.Record{} // by the client's address
		running := 0
		read := make(chan struct{})
		take := func(r flow.Record) {
			if r.End == flow.Running {
				running++
				return
			}
			client := r.Source
			if _, side := r.Server(); side == flow.ServerSide {
				client = r.Destination
			}
			if r.Source.Addr() == netip.MustParseAddr(nodetest.AddressPod1) || r.Interface == "pod2" {
				seen[client] = r
			}
		}
		go func() {
			defer close(read)
			for {
				r, err := o.Read()
				if err != nil {
					return
				}
				take(r)
			}
		}()

		// 300 connections of pod1 to the peer, with sizes over five magnitudes, and 60 of the peer to pod2, which sends.
		rng := rand.New(rand.NewPCG(1, 2))
		sent := map[netip.AddrPort]int64{}
		served := map[netip.AddrPort]int64{} // by the client's address
		var mu sync.Mutex
		var group errgroup.Group
		group.SetLimit(8)
		for i := range 360 {
			size := 8 + int64(100*pow10(rng.Float64()*4))
			if i == 0 {
				size = 35_000_000
			}
			group.Go(func() error {
				if i%10 == 0 {
					runtime.GC() // that would close links that nobody holds
				}
				if i%6 == 5 {
					from, err := nodetest.Exchange(bed.Peer, nodetest.AddressPod2+":8080", 8, size)
					mu.Lock()
					defer mu.Unlock()
					served[from] = size
					return err
				}
				from, err := nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", size, 1)
				mu.Lock()
				defer mu.Unlock()
				sent[from] = size
				return err
			})
		}
		require.NoError(t, group.Wait())
		time.Sleep(100 * time.Millisecond)
		counts, err := o.Counts()
		require.NoError(t, err)
		packets, counted, err := o.Health()
		require.NoError(t, err)
		uplink, err := FindUplink("up0")
		require.NoError(t, err)
		require.NoError(t, o.Finish())
		ended, evicted, err := o.Sweep()
		require.NoError(t, err)
		<-read
		require.NoError(t, o.Close())
		for _, r := range ended {
			take(r)
		}

		total, whole := int64(0), 0
		for from, size := range sent {
			r, ok := seen[from]
			total += size
			if ok && nodetest.SizeIs(r.Bytes, size) {
				whole++
				require.Equal(t, "pod1", r.Interface)
				port, side := r.Server()
				require.Equal(t, "9000 client", fmt.Sprint(port, " ", side))
			} else {
				t.Logf("%v sent %d bytes: %+v", from, size, r)
			}
		}
		for from, size := range served {
			r, ok := seen[from]
			if ok && nodetest.SizeIs(r.Bytes, size) {
				whole++
				require.Equal(t, "pod2", r.Interface)
				port, side := r.Server()
				require.Equal(t, "8080 server", fmt.Sprint(port, " ", side))
			} else {
				t.Logf("%v was sent %d bytes: %+v", from, size, r)
			}
		}
		t.Logf("%d of %d flows of %d bytes; %d running, %d evicted, seen ÷ counted packets %d ÷ %d, uplink sent %d; %+v",
			whole, len(sent)+len(served), total, running, evicted, packets, counted, uplink.Sent, counts)
		require.GreaterOrEqual(t, whole*100, (len(sent)+len(served))*99)
		require.GreaterOrEqual(t, running, 3)
		require.Zero(t, counts.Lost)
		require.Zero(t, evicted)
		require.InEpsilon(t, counted, packets, .01)
		require.Greater(t, uplink.Sent, uint64(total))
		require.Equal(t, 1000, uplink.Queue)
		require.Equal(t, before, state(t), "nothing is left behind")
		return nil
	}))
}

func pow10(x float64) float64 {
	v := 1.
	for ; x >= 1; x-- {
		v *= 10
	}
	return v * (1 + 9*x)
}

// state is what there is on the node's interfaces.
func state(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	links, err := netlink.LinkList()
	require.NoError(t, err)
	for _, l := range links {
		fmt.Fprintf(&b, "%s %s", l.Attrs().Name, l.Type())
		qdiscs, err := netlink.QdiscList(l)
		require.NoError(t, err)
		for _, q := range qdiscs {
			fmt.Fprintf(&b, " %s %v", q.Type(), q.Attrs())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// programs is how many TCX programs there are on an interface.
func programs(t testing.TB, index int) int {
	t.Helper()
	n := 0
	for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
		found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: at})
		require.NoError(t, err)
		n += len(found.Programs)
	}
	return n
}

const childOf = "SIGMA_FLOW_NODE_CHILD"

// A process that is killed leaves nothing behind; one whose interface goes away goes on with the others.
func TestKilled(t *testing.T) {
	if os.Getenv(childOf) != "" {
		o := open(t, Options{})
		list, err := Interfaces([]string{"pod1", "pod2/ingress", "up0/egress"})
		require.NoError(t, err)
		require.NoError(t, o.Watch(list))
		fmt.Println("watching")
		time.Sleep(time.Minute) // it is killed before
		return
	}
	bed := bedOf(t)
	require.NoError(t, nodetest.Within(bed.Node, func() error {
		list, err := Interfaces([]string{"pod1", "pod2", "up0"})
		require.NoError(t, err)
		before := state(t)
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKilled$")
		child.Env = append(os.Environ(), childOf+"=1")
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		text := make([]byte, 8)
		_, err = io.ReadFull(out, text)
		require.NoError(t, err)
		require.True(t, bytes.Equal([]byte("watching"), text), "%s", text)
		for _, i := range list {
			require.Equal(t, 2, programs(t, i.Index), i.Name)
		}
		require.NoError(t, child.Process.Kill())
		require.Error(t, child.Wait())
		for _, i := range list {
			// The kernel takes a link off when it comes to it.
			for wait := 0; programs(t, i.Index) > 0; wait++ {
				require.Less(t, wait, 500, i.Name)
				time.Sleep(10 * time.Millisecond)
			}
		}
		require.Equal(t, before, state(t))
		return nil
	}))
}

func TestInterfaceGoesAway(t *testing.T) {
	bed := bedOf(t)
	nodetest.Listen(t, bed.Peer, nodetest.AddressPeer+":9000")
	require.NoError(t, nodetest.Within(bed.Node, func() error {
		o := open(t, Options{Gap: time.Minute})
		list, err := Interfaces(nil)
		require.NoError(t, err)
		require.NoError(t, o.Watch(list))
		require.Equal(t, 3, o.Watched())
		gone, err := netlink.LinkByName("pod2")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkDel(gone))
		_, _, err = o.Health()
		require.NoError(t, err)
		require.ErrorContains(t, o.Watch(append(list, Interface{Index: 12345, Name: "never"})), "never", "it has gone before it was watched")
		list, err = Interfaces(nil)
		require.NoError(t, err)
		require.NoError(t, o.Watch(list))
		require.Equal(t, 2, o.Watched())
		_, err = Interfaces([]string{"pod2"})
		require.ErrorContains(t, err, "interface pod2: ")
		from, err := nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", 5000, 1)
		require.NoError(t, err)
		r := next(t, o)
		require.Equal(t, from, r.Source)
		require.Equal(t, uint64(5000), r.Bytes)
		return nil
	}))
}
