// Package complete completes the values of the command line's flags in a shell.
package complete

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/internal/compare"
	"github.com/sigma-scheduler/sigma/internal/export"
	"github.com/sigma-scheduler/sigma/internal/flows"
	"github.com/sigma-scheduler/sigma/internal/scaling"
	"github.com/sigma-scheduler/sigma/internal/train"
	"github.com/sigma-scheduler/sigma/internal/tune"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// values offers the values of a flag, given the command and the typed text.
type values = cobra.CompletionFunc

// Flags registers the completion of every flag of a command and those below it. It returns the flags
// of text without a completion.
func Flags(root *cobra.Command) (unknown []string) {
	root.Flags().VisitAll(func(f *pflag.Flag) {
		of, ok := known[strings.TrimPrefix(root.CommandPath(), "sigma ")+" --"+f.Name]
		if !ok {
			of, ok = known["--"+f.Name]
		}
		text := slices.Contains([]string{"string", "stringSlice", "stringArray", "size"}, f.Value.Type())
		switch {
		case f.Value.Type() == "bool":
			return
		case !ok && text:
			unknown = append(unknown, root.CommandPath()+" --"+f.Name)
			return
		case !ok:
			of = cobra.NoFileCompletions // a number, a duration
		}
		if f.Value.Type() == "stringSlice" {
			of = listed(of)
		}
		// It fails only for a flag that the command does not have, or that has a completion.
		_ = root.RegisterFlagCompletionFunc(f.Name, of)
	})
	for _, cmd := range root.Commands() {
		unknown = append(unknown, Flags(cmd)...)
	}
	return unknown
}

// oneOf offers words.
func oneOf(words ...string) values {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return slices.Clone(words), cobra.ShellCompDirectiveNoFileComp
	}
}

// orFiles offers words and, if none begins with the typed text, files.
func orFiles(words ...string) values {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return begin(words, typed), cobra.ShellCompDirectiveDefault
	}
}

// files offers files by extension.
func files(extensions ...string) values {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return slices.Clone(extensions), cobra.ShellCompDirectiveFilterFileExt
	}
}

func folders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func anyFile(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func begin(words []string, typed string) []string {
	var fit []string
	for _, w := range words {
		if strings.HasPrefix(w, typed) {
			fit = append(fit, w)
		}
	}
	return fit
}

// listed completes the last of several values with commas between them.
func listed(of values) values {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndex(typed, ",") + 1
		words, directive := of(cmd, args, typed[at:])
		if directive&(cobra.ShellCompDirectiveFilterFileExt|cobra.ShellCompDirectiveFilterDirs) != 0 {
			return words, directive
		}
		given := strings.Split(typed[:at], ",")
		var list []string
		for _, w := range begin(words, typed[at:]) {
			if !slices.Contains(given, w) {
				list = append(list, typed[:at]+w)
			}
		}
		return list, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// contexts are those of the kubeconfig that the command would read.
func contexts(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, _ = cmd.Flags().GetString("kubeconfig")
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for name := range config.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return begin(names, typed), cobra.ShellCompDirectiveNoFileComp
}

// features are those that the model given by --model, or the first, can learn.
func features(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	name, _ := cmd.Flags().GetString("model")
	model := policy.ModelOf(name)
	if model == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return begin(append(model.FeatureNames(), model.ParameterNames()...), typed), cobra.ShellCompDirectiveNoFileComp
}

func synthetic() []string {
	var names []string
	for _, f := range loadsim.Families() {
		names = append(names, scaling.Synthetic+f.Name)
	}
	return names
}

func targets() []string {
	return append([]string{}, tune.Targets()...)
}

var (
	free     values = cobra.NoFileCompletions // a name, a time, an address: nothing to offer
	policies        = orFiles(compare.Names()...)
	tables          = oneOf("table", "json")
	yaml            = files("yaml", "yml")
	csv             = files("csv")
	journals        = files("jsonl", "gz")
)

// known are the flags of text, by "--name" and, where commands differ, by "command --name".
var known = map[string]values{
	"--format":                           tables,
	"compare --format":                   oneOf("table", "json", "markdown"),
	"mpa concurrency recommend --format": oneOf("table", "json", "knative"),

	"--policy":                      policies,
	"mpa retrain --journals":        folders,
	"mpa concurrency learn --admin": free,
	"mpa concurrency learn --url":   free,
	"policy apply --name":           free,
	"mpa retrain --policy":          cobra.NoFileCompletions,
	"mpa retrain --result":          cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
	"mpa retrain --uid":             cobra.NoFileCompletions,
	"mpa simulate --policy":         yaml,
	"mpa replay --policy":           yaml,
	"flow simulate --policy":        oneOf(flows.Names()...),
	"--knowledge":                   oneOf(binpack.KnowledgeNames()...),
	"--ties":                        oneOf("random", "position"),
	"--model":                       oneOf(policy.TrainableNames()...),
	"--optimizer":                   oneOf(train.Optimizers()...),
	"--objectives":                  oneOf(train.Objectives()...),
	"--reference":                   oneOf(rule.Names()...),
	"--against":                     oneOf(rule.Names()...),
	"--features":                    features,
	"--for":                         oneOf(targets()...),
	"policy export --for":           oneOf(export.Targets()...),
	"--fleet":                       oneOf("open", "fixed"),
	"--objective":                   oneOf("machines", "cost"),
	"--prove":                       oneOf(compare.Solver),
	"--agents":                      orFiles(scaling.Known()...),
	"--generated":                   oneOf(sim.Sides()...),
	"--method":                      oneOf(scaling.Methods()...),
	"plan --at":                     oneOf("peak"),
	"--context":                     contexts,
	"--learner":                     oneOf(capacity.Names()...),

	"--trace":              anyFile, // a folder, or a .tar.gz file
	"mpa simulate --trace": orFiles(synthetic()...),
	"--validate":           anyFile,
	"--traces":             folders,
	"--out":                anyFile,
	"record --out":         folders,
	"--history":            folders,
	"train --out":          yaml,
	"tune --out":           yaml,
	"mpa train --out":      yaml,
	"rebalance --out":      csv,
	"--start":              yaml,
	"--join":               yaml,
	"--serving":            yaml,
	"--app":                yaml,
	"--object":             yaml,
	"--manifests":          anyFile,
	"--placements":         csv,
	"--prices":             csv,
	"--after":              csv,
	"--sizes":              csv,
	"--curve":              csv,
	"train --log":          csv,
	"--log":                anyFile, // a log that was kept aside ends in its time
	"mpa explain --log":    journals,
	"mpa simulate --log":   folders,
	"--journal":            folders,
	"--window":             files("jsonl"),
	"--checkpoint":         folders,
	"--report":             files("html"),
	"--picture":            files("svg"),
	"--mps":                files("mps"),
	"--kubeconfig":         anyFile,
	"--nats-ca":            files("pem", "crt"),
	"--nats-cert":          files("pem", "crt"),
	"--nats-key":           files("pem", "key"),
	"--nats-creds":         files("creds"),
	"--nats-token-file":    anyFile,
	"--nats-password-file": anyFile,

	"whatif --app": free, "--add": free, "--without": free, "--nodes": free, "--app-label": free, "--at": free, "--deadline": free, "--from": free, "--list": free, "--listen": free, "--max-unpacked": free, "--moves": free,
	"--namespace": free, "--nats": free, "--nats-fingerprint": free, "--nats-user": free, "--pod": free, "--prometheus": free, "--prometheus-match": free, "--uplink": free, "--rate": free, "--policy-name": free, "--rebalance": free,
	"--batch": free, "--nightly": free, "--renamed": free, "--repair": free, "--request": free, "--scheduler": free, "--set": free, "--size": free, "--until": free,
}
