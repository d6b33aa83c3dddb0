"""An example of a ReFrame configuration for halograd_test.py: this machine alone, and a cluster with Slurm. Your site's
own serves as well, as long as the partition's launcher starts MPI ranks."""

CPUS = 2  # of a node, to be edited

site_configuration = {
    "systems": [
        {
            "name": "site",
            "descr": "halograd's example",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "here",
                    "descr": "this machine, without a scheduler",
                    "scheduler": "local",
                    "launcher": "mpiexec",
                    "environs": ["default"],
                    "processor": {"num_cpus": CPUS},
                },
                {
                    "name": "slurm",
                    "descr": "nodes of a cluster",
                    "scheduler": "squeue",  # slurm where there is accounting
                    "launcher": "srun",
                    "environs": ["default"],
                    "env_vars": [["SLURM_MPI_TYPE", "pmi2"]],  # MPICH; pmix for Open MPI; see srun --mpi=list
                    "processor": {"num_cpus": CPUS},
                },
            ],
        }
    ],
    "environments": [{"name": "default"}],
}
