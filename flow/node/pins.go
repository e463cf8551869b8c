package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// pins of an order. The link is made last and removed first.
const (
	pinLink     = "link"
	pinAcks     = "acks" // link of the program that takes acknowledgements
	pinFlows    = "flows"
	pinSettings = "settings"
	pinCurrent  = "current"
	pinSent     = "sent"
	pinCounters = "counters"
	pinHints    = "hints"
	pinScope    = "scope"
)

var pinnedMaps = []string{pinFlows, pinSettings, pinCurrent, pinSent, pinCounters, pinHints, pinScope}

func isPinnable(folder string) error {
	parent := filepath.Dir(folder)
	var s unix.Statfs_t
	if err := unix.Statfs(parent, &s); err != nil {
		return fmt.Errorf("%s: %w", parent, err)
	}
	if s.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("pins: %s is in no bpffs; want a new folder inside one, such as %s", folder, DefaultPins)
	}
	return nil
}

// makePins makes the folder, and reports whether it was not there.
func makePins(folder string) (made bool, err error) {
	if err := isPinnable(folder); err != nil {
		return false, err
	}
	err = os.Mkdir(folder, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// lock keeps other processes from changing an order.
func lock(pins string) (unlock func(), err error) {
	folder, err := os.Open(pins)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (func(), error) {
		return nil, errors.Join(fmt.Errorf("%s: %w", pins, err), folder.Close())
	}
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fail(fmt.Errorf("another process is changing this order: %w", err))
	}
	mine, err := folder.Stat()
	if err != nil {
		return fail(err)
	}
	if now, err := os.Stat(pins); err != nil || !os.SameFile(mine, now) {
		return fail(errors.New("another process has just changed this order"))
	}
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return fail(err)
	}
	for _, e := range entries {
		if e.Name() != pinLink && e.Name() != pinAcks && !slices.Contains(pinnedMaps, e.Name()) {
			return fail(fmt.Errorf("it has %s, which is none of an order", e.Name()))
		}
	}
	return func() { _ = folder.Close() }, nil // nothing was written to it
}

// pinned returns the link of the active order and the index of its interface, 0 if that is deleted; or ErrNoOrder.
func pinned(pins string) (l link.Link, index int, err error) {
	l, err = link.LoadPinnedLink(filepath.Join(pins, pinLink), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, ErrNoOrder
	} else if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", pins, err)
	}
	info, err := l.Info()
	if err == nil && info.TCX() == nil {
		err = fmt.Errorf("%s: the link is none of TCX", pins)
	}
	if err != nil {
		return nil, 0, errors.Join(err, l.Close())
	}
	return l, int(info.TCX().Ifindex), nil
}

// change calls f with a map of the active order, those of its settings and these, while no other process changes it. It
// returns ErrNoOrder if there is no order.
func change(pins, name string, f func(m *ebpf.Map, to settingsMaps, settings orderBands) error) error {
	l, _, err := pinned(pins)
	if err != nil {
		return err
	}
	_ = l.Close() // the pin holds it
	unlock, err := lock(pins)
	if err != nil {
		return err
	}
	defer unlock()
	settings, err := readSettings(pins)
	if err != nil {
		return err
	}
	m, err := ebpf.LoadPinnedMap(filepath.Join(pins, name), nil)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", pins, name, err)
	}
	defer func() { _ = m.Close() }() // the pin holds it
	to, err := pinnedSettings(pins)
	if err != nil {
		return err
	}
	defer to.close()
	return f(m, to, settings)
}

// removePins detaches the program that takes acknowledgements, and removes the pins, and if folder is set the folder
// too.
func removePins(pins string, folder bool) error {
	var errs []error
	if l, err := link.LoadPinnedLink(filepath.Join(pins, pinAcks), nil); err == nil {
		_ = l.Detach() // it fails if the interface is deleted, and the link with it
		errs = append(errs, l.Close())
	}
	for _, name := range append([]string{pinLink, pinAcks}, pinnedMaps...) {
		if err := os.Remove(filepath.Join(pins, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if folder {
		errs = append(errs, os.Remove(pins))
	}
	return errors.Join(errs...)
}
