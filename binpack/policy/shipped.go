package policy

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/sigma-scheduler/sigma/benchdata/policies"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/learned/shipped"
)

// ShippedModel is the name of the model that chooses among shipped files.
const ShippedModel = "shipped"

// shippedTable assigns shipped files to states. The first row that suits counts. A row without a
// forecast uses its file at the knowledge K0.
var shippedTable = []struct {
	with, without shipped.Fact
	file          string
}{
	{with: shipped.Devices | shipped.Forecast, file: "general-k1-devices.yaml"},
	{with: shipped.Devices, file: "general-k1-devices.yaml"},
	{with: shipped.Loose, file: "kubernetes-k0.yaml"},
	{with: shipped.Fixed, file: "kubernetes-k0-fixed.yaml"},
	{with: shipped.Departures, file: "kubernetes-k0.yaml"},
	// Limits set the order in which machines run out, also one pod at a time.
	{with: shipped.Forecast | shipped.Limited, without: shipped.Batches, file: "large-k1.yaml"},
	{with: shipped.Plain | shipped.Mixed, file: "kubernetes-k0.yaml"},
	{with: shipped.Plain, file: "large-k1.yaml"},
	// The order in which apps arrive again shows the error of a forecast.
	{with: shipped.Forecast | shipped.Again | shipped.Batches, file: "large-k1.yaml"},
	{with: shipped.Forecast | shipped.Batches, file: "general-k1.yaml"},
	{with: shipped.Batches, file: "large-k1.yaml"},
	// One item at a time is a cluster, even before the first one leaves.
	{file: "kubernetes-k0.yaml"},
}

// shippedModel chooses among the shipped files.
var shippedModel = learned.Model{
	Name: ShippedModel, Knowledge: []binpack.Knowledge{binpack.K0, binpack.K1},
	Basis: "chooses among files of K0 and K1",
}

func init() { // the files name models, so the list of models cannot be initialised with it
	shippedModel.Contents = func() string { return loadShipped().contents }
	shippedModel.Build = func(s learned.Spec) (binpack.Policy, error) { return shipped.New(s.Knowledge, loadShipped().rows) }
}

type shippedFiles struct {
	rows     []shipped.Row
	files    []ShippedFile
	contents string
}

// A ShippedFile is a file that the model [ShippedModel] may choose.
type ShippedFile struct {
	Name   string // with a suffix where the file serves at K0, below its own knowledge
	Object *Object
	// Departures means that the table has it for fleets whose items leave, Fixed for fixed fleets.
	Departures, Fixed bool
}

// loadShipped reads the files of the table, once. A fault is one of the build.
var loadShipped = sync.OnceValue(func() shippedFiles {
	var all shippedFiles
	var contents strings.Builder
	fmt.Fprintln(&contents, shipped.Limits())
	for _, line := range shippedTable {
		object, name := mustShip(line.file), line.file
		if k0 := binpack.K0.String(); line.with&shipped.Forecast == 0 && object.Spec.Knowledge != k0 {
			object.Spec.Knowledge, name = k0, name+atK0Suffix
		}
		at := slices.IndexFunc(all.files, func(f ShippedFile) bool { return f.Name == name })
		if at < 0 {
			at = len(all.files)
			all.files = append(all.files, ShippedFile{Name: name, Object: object})
		}
		file := &all.files[at]
		file.Departures = file.Departures || line.with&shipped.Departures != 0
		file.Fixed = file.Fixed || line.with&(shipped.Fixed|shipped.Loose) != 0
		know, _ := binpack.ParseKnowledge(object.Spec.Knowledge)
		row := shipped.Row{
			With: line.with, Without: line.without, Policy: must(object.Policy()),
			Choice: binpack.Choice{Name: name, Digest: object.Digest(), Knowledge: know},
		}
		all.rows = append(all.rows, row)
		fmt.Fprintln(&contents, row.With, row.Without, row.Choice.Name, row.Choice.Digest)
	}
	all.contents = contents.String()
	return all
})

func mustShip(file string) *Object { return must(Parse(file, must(fs.ReadFile(policies.Files, file)))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("policy: the shipped policies: %v", err))
	}
	return v
}

// ShippedFiles lists the files that the model [ShippedModel] may choose, in the order of its table.
func ShippedFiles() []ShippedFile { return loadShipped().files }

// ShippedChoice is the file of a choice, without provenance.
func ShippedChoice(c binpack.Choice) *Object {
	for _, f := range ShippedFiles() {
		if f.Name == c.Name {
			plain := *f.Object
			plain.Spec.Provenance, plain.Spec.Mode = nil, ""
			return &plain
		}
	}
	return nil
}

const atK0Suffix = ", no forecast"

// Chosen is the policy of a file that a decision log has as chosen; former versions kept empty machines of fixed fleets back.
func (o *Object) Chosen(emptyLast bool) (binpack.Policy, error) {
	p, err := o.Policy()
	if err != nil || !emptyLast {
		return p, err
	}
	last, ok := p.(interface{ EmptyLast() binpack.Policy })
	if !ok {
		return nil, fmt.Errorf("spec.model %s cannot keep empty machines back", o.Spec.Model)
	}
	return last.EmptyLast(), nil
}

// Shipped is the object that leaves the choice to the model [ShippedModel].
func Shipped() *Object { return ShippedAt(binpack.K1) }

// ShippedAt is [Shipped] with a knowledge of K0 or K1.
func ShippedAt(know binpack.Knowledge) *Object {
	return &Object{
		APIVersion: APIVersion, Kind: ObjectKind, Metadata: Metadata{Name: "general"},
		Spec: Spec{
			FeatureVersion: FeatureVersion, Model: ShippedModel, Knowledge: know.String(),
			Mode: Shadow,
		},
	}
}
