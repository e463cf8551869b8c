// Command release builds what users install: images of the programs, without Docker, and a
// Helm chart of the manifests.
//
//	go run . images --source ../.. --out ../../out/images
//	go run . push --from ../../out/images REGISTRY
//	go run . chart --source ../.. --out ../../out/chart/sigma
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() { os.Exit(start()) }

func start() (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use: "release", Short: "Build what users install",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(imagesCommand(), pushCommand(), chartCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		return 1
	}
	return 0
}

func imagesCommand() *cobra.Command {
	var (
		out    string
		source = source{}
	)
	c := &cobra.Command{
		Use: "images", Short: "An OCI layout and a tarball of each program's image",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return writeImages(c.Context(), &source, out, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&out, "out", "out/images", "folder to write; images that a former build left there go")
	c.Flags().StringVar(&source.root, "source", ".", "root of the checkout")
	c.Flags().StringVar(&source.version, "version", "dev", "version that programs and labels state; tag of the images")
	c.Flags().StringVar(&source.revision, "revision", "", "commit that the labels state")
	c.Flags().StringSliceVar(&source.programs, "program", programs, "programs to build")
	c.Flags().StringSliceVar(&source.archs, "arch", []string{"amd64", "arm64"}, "architectures")
	return c
}

func pushCommand() *cobra.Command {
	var from, tag string
	c := &cobra.Command{
		Use: "push REGISTRY", Short: "Push the images that `images` wrote",
		Long: "Push the images that `images` wrote to REGISTRY/PROGRAM:TAG, with the credentials of\n" +
			"`docker login` ($DOCKER_CONFIG), podman or the cloud's credential helper.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return pushImages(c.Context(), from, args[0], tag, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&from, "from", "out/images", "folder that `images` wrote")
	c.Flags().StringVar(&tag, "tag", "", "tag; by default the version that the images state")
	return c
}

func chartCommand() *cobra.Command {
	var source, out, version string
	c := &cobra.Command{
		Use: "chart", Short: "A Helm chart of the manifests",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := writeChart(source, out, version); err != nil {
				return err
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), out)
			return err
		},
	}
	c.Flags().StringVar(&source, "source", ".", "root of the checkout")
	c.Flags().StringVar(&out, "out", "out/chart/sigma", "folder to write; what is there goes")
	c.Flags().StringVar(&version, "version", "dev", "version of the chart, and default tag of the images")
	return c
}
