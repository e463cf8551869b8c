package node

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
)

// onlyReads has the kernel prove that a program stores nothing into packets: as one of a type that may read them and no
// more. A store through a packet's address is no call that a list of calls would show.
func onlyReads(t *testing.T, spec *ebpf.CollectionSpec, name string) {
	t.Helper()
	if err := missing(); err != nil {
		t.Skipf("no BPF here: %v", err)
	}
	spec = spec.Copy()
	spec.Programs[name].Type, spec.Programs[name].AttachType = ebpf.LWTOut, ebpf.AttachNone
	c, err := ebpf.NewCollection(spec)
	if errors.Is(err, ebpf.ErrNotSupported) {
		t.Skipf("no programs of lightweight tunnels here: %v", err)
	}
	require.NoError(t, err)
	c.Close()
}

// stores loads a program that writes over a packet's time to live.
func stores(kind ebpf.ProgramType) error {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: kind, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 76, asm.Word), // data
		asm.LoadMem(asm.R3, asm.R1, 80, asm.Word), // data_end
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, 23),
		asm.JGT.Reg(asm.R4, asm.R3, "end"),
		asm.StoreImm(asm.R2, 22, 1, asm.Byte),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	}})
	if err == nil {
		err = p.Close()
	}
	return err
}

func TestStoresNothing(t *testing.T) {
	spec, err := loadOrder()
	require.NoError(t, err)
	onlyReads(t, spec, "order")
	onlyReads(t, spec, "acknowledged")
	spec, err = loadObserve()
	require.NoError(t, err)
	onlyReads(t, spec, "observe")
	onlyReads(t, spec, "acknowledged")
	require.NoError(t, stores(ebpf.SchedCLS), "where it may")
	require.ErrorContains(t, stores(ebpf.LWTOut), "cannot write into packet")
}
