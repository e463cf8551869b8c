package export

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// A Shell is the interface of a program for the command.
type Shell struct {
	Out   io.Writer
	Do    func(func(*cobra.Command, []string) error) func(*cobra.Command, []string) error // wraps the command's function
	Usage func(format string, args ...any) error                                          // the error of wrong use
	Load  func(path string) (*policy.Object, error)
}

// Command is "sigma policy export".
func (s Shell) Command() *cobra.Command {
	target := ""
	cmd := &cobra.Command{
		Use:   "export --for TARGET FILE",
		Short: "Print a policy as the configuration of upstream's kube-scheduler, of EKS or of AKS",
		Long: `Export prints a rule with its settings, as "sigma tune --for" writes it, or a rule by its name, as the
target takes it: a KubeSchedulerConfiguration, the kubeSchedulerConfig of an EKS cluster as
JSON, or the SchedulerConfiguration of AKS. What the target cannot express is refused by name.`,
		Example: `  sigma policy export --for kube-scheduler policy.yaml > scheduler.yaml
  sigma policy export --for eks mostallocated > eks.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return s.Usage("want one policy file or rule; the use is %s", cmd.UseLine())
			}
			return nil
		},
		RunE: s.Do(func(_ *cobra.Command, args []string) error {
			if !slices.Contains(Targets(), target) {
				return s.Usage("unknown target --for %q; there are %s", target, strings.Join(Targets(), ", "))
			}
			c, name := rule.Choice{Name: args[0]}, args[0]
			if slices.Contains(rule.Names(), args[0]) {
				if err := Check(c, target); err != nil {
					return err
				}
			} else {
				o, err := s.Load(args[0])
				if err != nil {
					return err
				}
				if c, err = Policy(o, target); err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
				name = o.Metadata.Name
			}
			text, err := Text(c, target, name)
			fmt.Fprint(s.Out, text)
			return err
		}),
	}
	cmd.Flags().StringVar(&target, "for", "", "what is to run the policy: "+strings.Join(Targets(), ", "))
	return cmd
}
