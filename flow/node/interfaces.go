package node

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// An Interface to watch. Packets of a pod enter at the host's end of its veth pair, and leave at any other
// interface.
type Interface struct {
	Index   int
	Name    string
	Veth    bool
	Ingress bool
}

// Interfaces returns those with the names, or the host's ends of all veth pairs whose other end is in another
// network namespace. A name may end in /ingress or /egress; otherwise such an end is watched on its
// way in, and every other interface on its way out.
func Interfaces(names []string) ([]Interface, error) {
	if len(names) == 0 {
		links, err := netlink.LinkList()
		if err != nil {
			return nil, fmt.Errorf("listing interfaces: %w", err)
		}
		var list []Interface
		for _, l := range links {
			if i := newInterface(l); i.Ingress {
				list = append(list, i)
			}
		}
		return list, nil
	}
	var list []Interface
	for _, name := range names {
		device, direction, given := strings.Cut(name, "/")
		l, err := netlink.LinkByName(device)
		if err != nil {
			return nil, fmt.Errorf("interface %s: %w", device, err)
		}
		if kind := l.Attrs().EncapType; kind != "ether" && kind != "loopback" {
			return nil, fmt.Errorf("interface %s: its packets have no Ethernet header (%s)", device, kind)
		}
		i := newInterface(l)
		if given {
			if direction != "ingress" && direction != "egress" {
				return nil, fmt.Errorf("interface %s: %q: want ingress or egress", device, direction)
			}
			i.Ingress = direction == "ingress"
		}
		if slices.ContainsFunc(list, func(o Interface) bool { return o.Index == i.Index }) {
			return nil, fmt.Errorf("interface %s: twice", device)
		}
		list = append(list, i)
	}
	return list, nil
}

func newInterface(l netlink.Link) Interface {
	veth := l.Type() == "veth"
	return Interface{Index: l.Attrs().Index, Name: l.Attrs().Name, Veth: veth, Ingress: veth && l.Attrs().NetNsID >= 0}
}

// packets is how many the interface has counted in its direction.
func (i Interface) packets() (uint64, error) {
	l, err := netlink.LinkByIndex(i.Index)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", i.Name, err)
	}
	s := l.Attrs().Statistics
	switch {
	case s == nil:
		return 0, fmt.Errorf("%s: no counters", i.Name)
	case i.Ingress:
		return s.RxPackets, nil
	}
	return s.TxPackets, nil
}

// An Uplink is the interface by which a node reaches others.
type Uplink struct {
	Name  string
	Rate  float64 // bits per second, 0 = unknown
	Queue int     // packets
	Sent  uint64  // bytes
}

// FindUplink returns the interface of the name, or that of the default route.
func FindUplink(name string) (Uplink, error) {
	l, err := uplink(name)
	if err != nil {
		return Uplink{}, err
	}
	u := Uplink{Name: l.Attrs().Name, Queue: l.Attrs().TxQLen}
	if s := l.Attrs().Statistics; s != nil {
		u.Sent = s.TxBytes
	}
	// In megabits, -1 if unknown; reading fails for an interface that is down.
	if text, err := os.ReadFile("/sys/class/net/" + u.Name + "/speed"); err == nil {
		if v, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil && v > 0 {
			u.Rate = v * 1e6
		}
	}
	return u, nil
}

func uplink(name string) (netlink.Link, error) {
	if name != "" {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("uplink %s: %w", name, err)
		}
		return l, nil
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := netlink.RouteList(nil, family)
		if err != nil {
			return nil, fmt.Errorf("listing routes: %w", err)
		}
		for _, r := range routes {
			if r.LinkIndex > 0 && (r.Dst == nil || isAll(r)) {
				return netlink.LinkByIndex(r.LinkIndex)
			}
		}
	}
	return nil, errors.New("no default route: which interface is the uplink?")
}

func isAll(r netlink.Route) bool {
	ones, _ := r.Dst.Mask.Size()
	return ones == 0
}
