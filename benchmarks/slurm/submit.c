/* SPDX-License-Identifier: Apache-2.0
 *
 * Submits COUNT batch jobs in one process, which is faster than COUNT times sbatch:
 *
 *   submit COUNT ACCOUNTS GPUS
 *
 * Job i goes to account a<i % ACCOUNTS>, asks for GPUS GPUs of one node (0: 1, 2 or 4) and for 60
 * to 659 minutes (GPUS > 0: a year). The same numbers are drawn by queue_bench.cc. Links with
 * libslurm (GPL-2.0-or-later): built by run.sh where it is used, never distributed.
 */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int count = atoi(argv[1]), accounts = atoi(argv[2]), fixed = atoi(argv[3]);
  char* environment[] = {"PATH=/usr/bin:/bin", NULL};
  uint32_t random = 12345;
  int refused = 0;
  slurm_init(NULL);
  for (int i = 0; i < count; ++i) {
    char account[32], gres[32];
    job_desc_msg_t job;
    submit_response_msg_t* answer = NULL;
    random = random * 1103515245u + 12345u;
    snprintf(account, sizeof account, "a%d", i % accounts);
    snprintf(gres, sizeof gres, "gres:gpu:%d", fixed > 0 ? fixed : 1 << ((random >> 16) % 3));
    slurm_init_job_desc_msg(&job);
    job.name = "queue";
    job.script = "#!/bin/sh\nexec sleep 100000\n";
    job.environment = environment;
    job.env_size = 1;
    job.work_dir = "/";
    job.std_out = job.std_err = "/dev/null";
    job.user_id = job.group_id = 0;
    job.account = account;
    job.tres_per_node = gres;
    job.min_nodes = job.max_nodes = 1;
    job.num_tasks = 1;
    job.time_limit = fixed > 0 ? 60 * 24 * 365 : 60 + (random >> 20) % 600;
    if (slurm_submit_batch_job(&job, &answer) != SLURM_SUCCESS) {
      if (refused++ == 0) fprintf(stderr, "submit: %s\n", slurm_strerror(slurm_get_errno()));
    } else {
      slurm_free_submit_response_response_msg(answer);
    }
  }
  return refused == 0 ? 0 : 1;
}
