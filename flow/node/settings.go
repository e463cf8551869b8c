package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/sigma-scheduler/sigma/flow"
)

// maps of the settings, as the program has them; current is nil in an order of an earlier version, which has one place for them.
type settingsMaps struct{ settings, current *ebpf.Map }

// pinnedSettings returns those of the order that is on.
func pinnedSettings(pins string) (m settingsMaps, err error) {
	if m.settings, err = ebpf.LoadPinnedMap(filepath.Join(pins, pinSettings), nil); err != nil {
		return m, fmt.Errorf("%s: %s: %w", pins, pinSettings, err)
	}
	if m.current, err = ebpf.LoadPinnedMap(filepath.Join(pins, pinCurrent), nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, errors.Join(fmt.Errorf("%s: %s: %w", pins, pinCurrent, err), m.settings.Close())
	}
	return m, nil
}

func (m settingsMaps) close() {
	_ = m.settings.Close() // the pin holds it
	_ = m.current.Close()
}

// place is the index of the active settings.
func (m settingsMaps) place() (at uint32, err error) {
	if m.current != nil {
		err = m.current.Lookup(uint32(0), &at)
	}
	return at, err
}

// write activates settings for the next packet.
func (m settingsMaps) write(b *orderBands) error {
	at, err := m.place()
	if err == nil {
		at = (at + 1) % m.settings.MaxEntries()
		err = m.settings.Put(at, b)
	}
	if err == nil && m.current != nil {
		err = m.current.Put(uint32(0), at)
	}
	if err != nil {
		return fmt.Errorf("writing the settings: %w", err)
	}
	return nil
}

// read returns the active settings. Those of an earlier version are shorter, and begin in the same way.
func (m settingsMaps) read() (b orderBands, err error) {
	at, err := m.place()
	if err != nil {
		return b, err
	}
	raw, err := m.settings.LookupBytes(at)
	if err != nil {
		return b, err
	}
	raw = append(raw, make([]byte, max(0, binary.Size(b)-len(raw)))...)
	_, err = binary.Decode(raw, binary.NativeEndian, &b)
	return b, err
}

// readSettings returns those of the order that is on, which has to be of this network namespace.
func readSettings(pins string) (orderBands, error) {
	m, err := pinnedSettings(pins)
	if err != nil {
		return orderBands{}, err
	}
	defer m.close()
	b, err := m.read()
	if err != nil {
		return b, fmt.Errorf("%s: reading the thresholds: %w", pins, err)
	}
	if b.Count < 2 || b.Count > flow.MostBands {
		return b, fmt.Errorf("%s: %d bands: this is of another version", pins, b.Count)
	}
	here, err := network()
	if err == nil && here != b.Network {
		err = fmt.Errorf("%s: this order is of another network namespace: do it there", pins)
	}
	return b, err
}
