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

// shippedTable assigns shipped files to states. The first row that suits counts.
var shippedTable = []struct {
	with, without shipped.Fact
	file          string
	emptyLast     bool // empty machines of a fixed fleet stay empty
	// digest is that of a file that only the laboratory has. Without it the row suits no state, and
	// the digest of the table is the same.
	digest string
}{
	{with: shipped.Devices | shipped.Forecast, file: "general-k1-devices.yaml"},
	{with: shipped.Devices, file: "general-k0-devices.yaml"},
	// Without a forecast every fleet looks loose at the beginning; with departures a fleet
	// loose at night may be tight at noon.
	{with: shipped.Loose | shipped.Forecast | shipped.Batches, without: shipped.Departures, file: "kubernetes-k0-fixed.yaml", emptyLast: true},
	// One pod at a time is a cluster: the declared items are fewer than at the peak of a day.
	{with: shipped.Roomy | shipped.Forecast, file: "kubernetes-k0-fixed.yaml", emptyLast: true},
	{with: shipped.Wide, without: shipped.Fixed | shipped.Departures, file: "wide-k0.yaml"},
	{with: shipped.Fixed, file: "kubernetes-k0-fixed.yaml"},
	{with: shipped.Departures, file: "kubernetes-k0.yaml"},
	// Limits set the order in which machines run out, also one pod at a time.
	{with: shipped.Forecast | shipped.Limited, without: shipped.Batches, file: "large-k1.yaml"},
	// The plain files were trained on machines that are all alike.
	{with: shipped.Plain | shipped.Mixed, file: "kubernetes-k0.yaml"},
	{with: shipped.Plain | shipped.OneDimension, file: "general-k0-plain-1d.yaml", digest: "sha256:29ce5301932233c592eb1c849ffe94e4b3b3328ac4038050a279df5893ce73a6"},
	{with: shipped.Plain | shipped.Several, file: "vectors-k0.yaml"},
	{with: shipped.Plain, file: "general-k0-plain.yaml"},
	// The order in which apps arrive again shows the error of a forecast.
	{with: shipped.Forecast | shipped.Again | shipped.Batches, file: "large-k1.yaml"},
	{with: shipped.Forecast | shipped.Batches, file: "general-k1.yaml"},
	{with: shipped.Batches, file: "large-k0.yaml"},
	// One item at a time is a cluster, even before the first one leaves.
	{file: "kubernetes-k0.yaml"},
}

// shippedModel chooses among the shipped files.
var shippedModel = learned.Model{
	Name: ShippedModel, Knowledge: []binpack.Knowledge{binpack.K1},
	Basis: "what a file knows that its name says; a forecast counts where there is one",
}

func init() { // the files name models, so the list of models cannot be initialised with it
	shippedModel.Contents = func() string { return loadShipped().contents }
	shippedModel.Build = func(learned.Spec) (binpack.Policy, error) { return loadShipped().policy, nil }
}

type shippedFiles struct {
	policy   *shipped.Policy
	files    []ShippedFile
	contents string
}

// A ShippedFile is a file that the model [ShippedModel] may choose.
type ShippedFile struct {
	Name   string
	Object *Object
	// Departures means that the table has it for fleets whose items leave, Fixed for fixed fleets.
	Departures, Fixed bool
}

// loadShipped reads the files of the table, once. A fault is one of the build.
var loadShipped = sync.OnceValue(func() shippedFiles {
	var all shippedFiles
	var contents strings.Builder
	var rows []shipped.Row
	objects := map[string]*Object{}
	for _, line := range shippedTable {
		if _, err := fs.Stat(policies.Files, line.file); err != nil && line.digest != "" {
			fmt.Fprintln(&contents, line.with, line.without, line.file, line.digest)
			continue
		}
		object, ok := objects[line.file]
		if !ok {
			object = mustShip(line.file)
			objects[line.file] = object
			all.files = append(all.files, ShippedFile{Name: line.file, Object: object})
		}
		file := &all.files[slices.IndexFunc(all.files, func(f ShippedFile) bool { return f.Name == line.file })]
		file.Departures = file.Departures || line.with&shipped.Departures != 0
		file.Fixed = file.Fixed || line.with&shipped.Fixed != 0
		know, _ := binpack.ParseKnowledge(object.Spec.Knowledge)
		row := shipped.Row{
			With: line.with, Without: line.without, Policy: must(object.Chosen(line.emptyLast)),
			Choice: binpack.Choice{Name: line.file, Digest: object.Digest(), Knowledge: know},
		}
		if line.emptyLast {
			row.Choice.Name += emptyLastSuffix
		}
		rows = append(rows, row)
		fmt.Fprintln(&contents, row.With, row.Without, row.Choice.Name, row.Choice.Digest)
	}
	all.policy, all.contents = must(shipped.New(rows)), contents.String()
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

// ShippedChoice is the file of a choice, without provenance, and whether empty machines of a
// fixed fleet are kept back.
func ShippedChoice(c binpack.Choice) (object *Object, emptyLast bool) {
	file, emptyLast := strings.CutSuffix(c.Name, emptyLastSuffix)
	for _, f := range ShippedFiles() {
		if f.Name == file {
			plain := *f.Object
			plain.Spec.Provenance, plain.Spec.Mode = nil, ""
			object = &plain
		}
	}
	return object, emptyLast
}

const emptyLastSuffix = ", empty machines last"

// Chosen is the policy of a file that was chosen.
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
func Shipped() *Object {
	return &Object{
		APIVersion: APIVersion, Kind: ObjectKind, Metadata: Metadata{Name: "general"},
		Spec: Spec{
			FeatureVersion: FeatureVersion, Model: ShippedModel, Knowledge: binpack.K1.String(),
			Mode: Shadow,
		},
	}
}
