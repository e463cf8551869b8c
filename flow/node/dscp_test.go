package node

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node/nodetest"
)

// ipAt is where the packet's IP header begins, 0 = it has none that is whole.
func ipAt(p packet) (at int, six bool) {
	for at = 12; at+2 <= len(p); at += 4 {
		switch kind := binary.BigEndian.Uint16(p[at:]); kind {
		case 0x8100, 0x88a8:
		case 0x0800:
			return at + 2, false
		case 0x86dd:
			return at + 2, true
		default:
			return 0, false
		}
	}
	return 0, false
}

// service returns the packet with a type of service, a valid checksum of IPv4, and in IPv6 a flow label.
func service(p packet, tos byte) packet {
	p = slices.Clone(p)
	at, six := ipAt(p)
	switch {
	case at == 0:
	case six && len(p) >= at+40:
		binary.BigEndian.PutUint32(p[at:], 6<<28|uint32(tos)<<20|0xf1234)
	case !six && len(p) >= at+20:
		p[at+1], p[at+10], p[at+11] = tos, 0, 0
		end := min(len(p), at+int(p[at]&15)*4)
		sum := uint32(0)
		for i := at; i+1 < end; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		for sum>>16 != 0 {
			sum = sum&0xffff + sum>>16
		}
		binary.BigEndian.PutUint16(p[at+10:], ^uint16(sum))
	}
	return p
}

// marked is what a program makes of a packet.
func marked(t testing.TB, program *ebpf.Program, p packet) packet {
	t.Helper()
	options := ebpf.RunOptions{Data: p, DataOut: make([]byte, len(p)+256)}
	verdict, err := program.Run(&options)
	require.NoError(t, err, "%x", p)
	require.Equal(t, ^uint32(0), verdict, "go on with the next program")
	return options.DataOut
}

// setDSCP makes the program write them, of so many bands as the thresholds have.
func setDSCP(t testing.TB, o *orderObjects, thresholds flow.Thresholds) {
	t.Helper()
	settings := inForce(t, o)
	settings.Dscp = (&OrderOptions{DSCP: true, Thresholds: thresholds}).dscp()
	_, err := o.set(settings, thresholds)
	require.NoError(t, err)
}

// dscpPackets: those of flows get the DSCP of their band, and no others.
var dscpPackets = []struct {
	name  string
	p     packet
	flows bool
}{
	{"IPv4 TCP", data4(ack, 100), true},
	{"IPv4 TCP without payload", data4(ack, 0), true},
	{"IPv4 UDP", ethernet(0x0800).ipv4(5, 8+60, 17, 0).udp(60), true},
	{"IPv4 options", ethernet(0x0800).ipv4(15, 20+60, 6, 0).tcp(5, ack, 60), true},
	{"first fragment", ethernet(0x0800).ipv4(5, 8+64, 17, 0x2000).udp(64), true},
	{"VLAN", ethernet(0x0800, 0x8100).ipv4(5, 20+60, 6, 0).tcp(5, ack, 60), true},
	{"two VLANs", ethernet(0x0800, 0x88a8, 0x8100).ipv4(6, 20+60, 6, 0).tcp(5, ack, 60), true},
	{"IPv6 TCP", ethernet(0x86dd).ipv6(20+60, 6).tcp(5, ack, 60), true},
	{"IPv6 UDP", ethernet(0x86dd).ipv6(8+60, 17).udp(60), true},
	{"IPv6 in VLANs", ethernet(0x86dd, 0x88a8, 0x8100).ipv6(8+60, 17).udp(60), true},
	{"IPv6 options", ethernet(0x86dd).ipv6(8+20+60, 0).add(6, 0, 1, 4, 0, 0, 0, 0).tcp(5, ack, 60), true},
	{"padding behind it", ethernet(0x0800).ipv4(5, 20, 6, 0).tcp(5, ack, 0).add(0, 0, 0, 0, 0, 0), true},
	{"later fragment", ethernet(0x0800).ipv4(5, 64, 17, 8).add(make([]byte, 64)...), false},
	{"ICMP", ethernet(0x0800).ipv4(5, 64, 1, 0).add(make([]byte, 64)...), false},
	{"ICMPv6", ethernet(0x86dd).ipv6(64, 58).add(make([]byte, 64)...), false},
	{"ARP", ethernet(0x0806).add(make([]byte, 28)...), false},
	{"TCP header cut", ethernet(0x0800).ipv4(5, 20, 6, 0).add(make([]byte, 19)...), false},
	{"TCP options cut", ethernet(0x0800).ipv4(5, 20, 6, 0).tcp(8, ack, 0)[:14+20+20], false},
	{"UDP header cut", ethernet(0x0800).ipv4(5, 8, 17, 0).udp(0)[:14+20+7], false},
	{"IPv4 header cut", ethernet(0x0800, 0x8100).ipv4(5, 20, 6, 0)[:18+19], false},
	{"IPv4 header too short", ethernet(0x0800).ipv4(4, 40, 6, 0).tcp(5, ack, 50), false},
	{"IPv6 header cut", ethernet(0x86dd, 0x8100).ipv6(20, 6)[:18+39], false},
	{"IPv6 options cut", ethernet(0x86dd).ipv6(20, 0).add(6, 200, 0, 0, 0, 0, 0, 0).tcp(5, ack, 5), false},
	{"VLAN cut", ethernet(0x8100)[:14], false},
	{"three VLANs", ethernet(0x0800, 0x88a8, 0x8100, 0x8100).ipv4(5, 20+60, 6, 0).tcp(5, ack, 60), false},
}

var dscpBands = flow.Thresholds{1 << 30, 1 << 31, 1 << 32}

// wrongMarks names packets that mark changes though it should not, or not to what they should be.
func wrongMarks(t testing.TB, o *orderObjects) (wrong []string) {
	t.Helper()
	setDSCP(t, o, dscpBands)
	for _, c := range dscpPackets {
		for _, tos := range []byte{0, 1, 2, 3, 8 << 2, 46<<2 | 1, 1 << 2, 2 << 2, 3 << 2, 4<<2 | 3, 16 << 2, 32 << 2, 255} {
			p := service(c.p, tos)
			want := p
			if c.flows && tos < 4 {
				want = service(c.p, tos|af31<<2)
			}
			if got := marked(t, o.Mark, p); !bytes.Equal(want, got) {
				wrong = append(wrong, fmt.Sprintf("%s, type of service %#x: %x, want %x", c.name, tos, got, want))
			}
			if got := marked(t, o.Order, p); !bytes.Equal(p, got) {
				wrong = append(wrong, c.name+": by the program without stores")
			}
		}
	}
	return wrong
}

// A packet of a flow that has no DSCP gets that of its band, with a valid checksum and its own ECN. All others stay as they are.
func TestDSCP(t *testing.T) {
	o := openOrder(t, dscpBands)
	require.Empty(t, wrongMarks(t, o))

	// Not without values, and not outside the scope.
	inScope(t, o, "10.9.9.9")
	p := service(data4(ack, 100), 0)
	require.Equal(t, p, marked(t, o.Mark, p))
	inScope(t, o, "10.0.0.1")
	require.NotEqual(t, p, marked(t, o.Mark, p))
	settings := inForce(t, o)
	settings.Dscp = (&OrderOptions{Thresholds: dscpBands}).dscp()
	_, err := o.set(settings, dscpBands)
	require.NoError(t, err)
	require.Equal(t, p, marked(t, o.Mark, p))
}

// Each band has its own, however many there are, and a class that goes before others is not behind them in the network.
func TestDSCPOfBands(t *testing.T) {
	require.Len(t, dscps, flow.MostBands+1)
	for bands := 2; bands <= flow.MostBands; bands++ {
		var thresholds flow.Thresholds
		for i := range bands - 1 {
			thresholds = append(thresholds, int64(1000*(i+1)))
		}
		o := openOrder(t, thresholds)
		setDSCP(t, o, thresholds)
		for band := range bands {
			p := service(data4(ack, 1000), 0)
			require.Equal(t, service(p, dscps[bands][band]<<2), marked(t, o.Mark, p), "band %d of %d", band, bands)
		}
		require.Len(t, dscps[bands], bands)
		require.EqualValues(t, cs1, dscps[bands][bands-1])
		for i := 1; i < bands; i++ { // class, then precedence of dropping
			a, b := dscps[bands][i-1], dscps[bands][i]
			require.True(t, a>>3 > b>>3 || a>>3 == b>>3 && (b > a || b == cs1), "%d before %d", a, b)
		}
	}
}

// The table finds errors that somebody could make in the C file.
func TestDSCPFaults(t *testing.T) {
	for _, c := range []struct{ name, old, planted string }{
		{"none", "", ""},
		{"the checksum stays", "replace_checksum(skb, at + 10, was, is, 2) || ", ""},
		{"another's DSCP is written over", "if (from[1] >> 2)", "if (0)"},
		{"another's DSCP of IPv6 is written over", "if ((from[0] & 15) || from[1] >> 6)", "if (0)"},
		{"ECN is written over", "to[1] |= dscp << 2", "to[1] = dscp << 2"},
		{"ECN or flow label of IPv6 are written over", "to[1] |= dscp << 6", "to[1] = dscp << 6"},
		{"what is no flow is marked", "	u8 dscp = 0;\n", "	u8 dscp = set->dscp[0];\n"},
		{"tags are not passed over", "if (kind != VLAN && kind != QINQ)\n			break;\n		at += 4;", "break;"},
		{"the program without stores has one", "	put(skb);\n	return", "	write_dscp(skb, 8);\n	return"},
	} {
		old, planted := c.old, c.planted
		if c.name == "the program without stores has one" { // which is above what it calls
			old, planted = "SEC(\"tc\")\nint order(struct __sk_buff *skb) {\n	put(skb);", "static inline __attribute__((always_inline)) void write_dscp(struct __sk_buff *skb, u8 dscp);\nSEC(\"tc\")\nint order(struct __sk_buff *skb) {\n	write_dscp(skb, put(skb));"
		}
		wrong := wrongMarks(t, plant(t, dscpBands, old, planted))
		require.Equal(t, c.old != "", len(wrong) > 0, "%s: %v", c.name, wrong)
	}
}

// The program that marks has two helpers more than the other, and no more.
func TestDSCPOnlyStores(t *testing.T) {
	spec, err := loadOrder()
	require.NoError(t, err)
	calls := func(program string) map[asm.BuiltinFunc]int {
		n := map[asm.BuiltinFunc]int{}
		for _, in := range spec.Programs[program].Instructions {
			if in.IsBuiltinCall() {
				n[asm.BuiltinFunc(in.Constant)]++
			}
		}
		return n
	}
	order, mark := calls("order"), calls("mark")
	require.Equal(t, 1, mark[asm.FnL3CsumReplace])
	require.Equal(t, 2, mark[asm.FnSkbStoreBytes])
	delete(mark, asm.FnL3CsumReplace)
	delete(mark, asm.FnSkbStoreBytes)
	for which := range mark {
		require.NotZero(t, order[which], "%v", which)
	}
}

// received sends a UDP packet from the pod to the peer, and returns the type of service that arrives.
func received(t *testing.T, bed *nodetest.Testbed, tos int) (got int) {
	t.Helper()
	var l *net.UDPConn
	var err error
	require.NoError(t, nodetest.Within(bed.Peer, func() error {
		l, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 9001})
		return err
	}))
	defer func() { require.NoError(t, l.Close()) }()
	raw, err := l.SyscallConn()
	require.NoError(t, err)
	var set error
	require.NoError(t, raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTOS, 1) }))
	require.NoError(t, set)
	require.NoError(t, nodetest.Within(bed.Pod1, func() error {
		c, err := net.Dial("udp4", nodetest.AddressPeer+":9001")
		if err != nil {
			return err
		}
		raw, err := c.(*net.UDPConn).SyscallConn()
		if err != nil {
			return err
		}
		err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, tos) })
		_, sent := c.Write([]byte("x"))
		return errors.Join(err, set, sent, c.Close())
	}))
	oob := make([]byte, 64)
	_, n, _, _, err := l.ReadMsgUDP(make([]byte, 8), oob)
	require.NoError(t, err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	require.NoError(t, err)
	require.Len(t, messages, 1)
	return int(messages[0].Data[0])
}

// On a real uplink the DSCP arrives, whole connections go through with their checksums, and it ends with the setting.
func TestDSCPOnUplink(t *testing.T) {
	bed := bedOf(t)
	pins := pinsOf(t)
	nodetest.Listen(t, bed.Peer, nodetest.AddressPeer+":9000")
	o := OrderOptions{Uplink: "up0", Rate: 200e6, Thresholds: flow.Thresholds{20_000, 200_000}, Pins: pins}
	var before string
	within := func(f func() error) {
		t.Helper()
		require.NoError(t, nodetest.Within(bed.Node, f))
	}
	within(func() error {
		before = state(t)
		return nil
	})
	for _, on := range []bool{false, true, false, true} {
		o.DSCP = on
		var was, is OrderStatus
		within(func() (err error) {
			turnOn(t, o)
			was, err = ReadOrder(pins)
			return err
		})
		want := 0
		if on {
			want = af21 << 2
			require.Equal(t, []int{af21, af11, cs1}, was.DSCP)
		} else {
			require.Nil(t, was.DSCP)
		}
		require.Equal(t, want, received(t, bed, 0))
		require.Equal(t, want|2, received(t, bed, 2), "ECN")
		require.Equal(t, 46<<2, received(t, bed, 46<<2), "the sender's own")
		_, err := nodetest.Exchange(bed.Pod1, nodetest.AddressPeer+":9000", 1_000_000, 1)
		require.NoError(t, err)
		within(func() (err error) {
			is, err = ReadOrder(pins)
			return err
		})
		require.Equal(t, on, is.Marked > was.Marked)
		require.Greater(t, is.Bands[2].Bytes-was.Bands[2].Bytes, uint64(700_000))
	}
	within(func() error {
		require.NoError(t, TurnOff(pins, 0))
		require.Equal(t, before, state(t))
		return nil
	})
	require.Zero(t, received(t, bed, 0))
}
