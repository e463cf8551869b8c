package node

import (
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A Need is a feature of a machine that the observer needs. Err is nil if the machine has it. Features that
// are not Required are for later.
type Need struct {
	Name     string
	Required bool
	Err      error
}

// Probe checks the machine for the observer's needs.
func Probe() []Need {
	needs := []Need{
		{"CAP_BPF", true, capability(unix.CAP_BPF)},
		{"CAP_NET_ADMIN", true, capability(unix.CAP_NET_ADMIN)},
		{"BPF programs of type sched_cls", true, features.HaveProgramType(ebpf.SchedCLS)},
		{"BPF map lru_hash", true, features.HaveMapType(ebpf.LRUHash)},
		{"BPF map ringbuf", true, features.HaveMapType(ebpf.RingBuf)},
		{"TCX", true, haveTCX()},
		{"the verifier takes the program", true, load()},
	}
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	return append(needs, Need{"BTF of the kernel", false, err})
}

// Missing returns the required ones that are not there, with their names.
func Missing(needs []Need) error {
	var errs []error
	for _, n := range needs {
		if n.Required && n.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.Name, n.Err))
		}
	}
	return errors.Join(errs...)
}

// capability reports whether the process has it in effect; CAP_SYS_ADMIN has CAP_BPF in it.
func capability(which int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	has := func(c int) bool { return data[c/32].Effective&(1<<(c%32)) != 0 }
	if has(which) || which == unix.CAP_BPF && has(unix.CAP_SYS_ADMIN) {
		return nil
	}
	return errors.New("the process does not have it")
}

func load() error {
	o, err := Open(Options{})
	if err != nil {
		return err
	}
	return o.Close()
}

// haveTCX attaches the program to an interface that does not exist.
func haveTCX() error {
	spec, err := loadObserve()
	if err != nil {
		return err
	}
	var p observePrograms
	if err := spec.LoadAndAssign(&p, nil); err != nil {
		return err
	}
	defer func() { _ = p.Close() }() // nothing holds it
	l, err := link.AttachTCX(link.TCXOptions{Interface: math.MaxInt32, Program: p.Observe, Attach: ebpf.AttachTCXIngress})
	if err == nil {
		return errors.Join(errors.New("an interface that does not exist was attached to"), l.Close())
	}
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}
