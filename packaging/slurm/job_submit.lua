-- For Slurm's JobSubmitPlugins=lua: counts the GPU memory that a job requests from CARMA as gres/carma, in GiB, so that Slurm sends the job
-- to a node that has this memory. Use this file as /etc/slurm/job_submit.lua, or load it from that file with dofile(). docs/server/slurm.md
--
-- Variables that a site may set before:
--   carma_gib_per_gpu   count for a GPU if the job does not state its memory (printed by carma slurm config)
--   carma_largest_gpu_gib   largest GPU of all nodes (carma slurm config prints that of its node): a larger --carma-mem is refused
--   carma_partitions    { shared = true }: partitions in which no job may use Slurm's GPUs; elsewhere, jobs with CARMA's options may not
--   carma_gres          "gres:carma:" before Slurm 23.11, "gres/carma:" since; if not set, this file asks slurmctld for its version

carma_gib_per_gpu = carma_gib_per_gpu or 40

-- Called once, when slurmctld loads this file. A slurmctld that root started and that has become another user cannot run itself, so the one in PATH
-- is run instead.
local function gres_of_this_slurm()
  local asked = io.popen("{ /proc/$PPID/exe -V || slurmctld -V || /usr/sbin/slurmctld -V; } 2>/dev/null")
  local year, month = string.match(asked and asked:read("*l") or "", "(%d+)%.(%d+)")
  if asked then asked:close() end
  local new = year and tonumber(year) * 100 + tonumber(month) >= 2311
  return new and "gres/carma:" or "gres:carma:"
end
carma_gres = carma_gres or gres_of_this_slurm()

local OPTION = "_SLURM_SPANK_OPTION_carma_carma_"
local MIB = { [""] = 1, m = 1, mb = 1, mib = 1, g = 1024, gb = 1024, gib = 1024, t = 1048576, tb = 1048576, tib = 1048576 }

-- The plug-in's options, by their names without "carma_".
local function options_of(job_desc)
  local found, any = {}, false
  for _, variable in pairs(job_desc.spank_job_env or {}) do
    local name, value = string.match(variable, "^" .. OPTION .. "([%w_]+)=?(.*)$")
    if name then
      found[name] = value
      any = true
    end
  end
  return any and found or nil
end

-- Converts "1536M" to 1.5; nil if the text is not a size.
local function exact_gib(text)
  local number, unit = string.match(string.lower(text or ""), "^([%d.]+)(%a*)$")
  number = tonumber(number)
  if not number or not MIB[unit] then return nil end
  return number * MIB[unit] / 1024
end

-- Converts "12G" to GiB, rounded up; nil if the text is not a size.
function carma_gib(text)
  local gib = exact_gib(text)
  return gib and math.max(1, math.ceil(gib))
end

-- Nodes count whole GiB, so a GPU may really have almost one GiB more.
local function fits_no_gpu(text)
  return carma_largest_gpu_gib and exact_gib(text) >= math.floor(carma_largest_gpu_gib) + 1
end

-- The number of gres/carma on a node for these options. A whole GPU is rounded down, as on the nodes.
function carma_count(options)
  local each = carma_gib_per_gpu
  if not options.exclusive then each = carma_gib(options.mem) or carma_gib_per_gpu end
  if each == math.floor(carma_gib_per_gpu) + 1 then each = math.floor(carma_gib_per_gpu) end
  return math.floor(each * (tonumber(options.gpus) or 1))
end

-- Splits "gres:gpu:1,gres:carma:20" into the other resources and 20; nil if the text counts no gres/carma.
local function split_count(asked)
  local others, count = {}, nil
  if type(asked) ~= "string" then return others, count end
  for each in string.gmatch(asked, "[^,]+") do
    local name = string.gsub(each, "^gres[:/]", "")
    if string.match(name, "^carma$") or string.match(name, "^carma[:=]") then
      local number, unit = string.match(name, "[:=](%d+)([kKmM]?)$")
      local times = ({ k = 1024, m = 1048576 })[string.lower(unit or "")] or 1
      count = (count or 0) + (tonumber(number) or 1) * times
    else
      table.insert(others, each)
    end
  end
  return others, count
end

local function wants_gpus(job_desc)
  for _, field in ipairs({ "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "gres" }) do
    local asked = job_desc[field]
    if type(asked) == "string" and string.find("," .. string.gsub(asked, "gres[:/]", "") .. ",", "[,]gpu[:=,]") then return true end
  end
  return false
end

local function refuse(sentence)
  slurm.log_user("%s", sentence)
  return slurm.ERROR
end

-- The partitions that the job names ("main,apart"), or else the default partition.
local function partitions_of(job_desc, part_list)
  if job_desc.partition then return job_desc.partition end
  for name, partition in pairs(part_list or {}) do
    if partition.flag_default == 1 then return name end
  end
  return ""
end

-- Whether one of these partitions refuses Slurm's GPUs to all jobs.
local function is_shared(partitions)
  for name in string.gmatch(partitions or "", "[^,]+") do
    if carma_partitions and carma_partitions[name] then return true end
  end
  return false
end

local function refuse_gpus()
  return refuse("CARMA gives the GPUs here: ask for --carma-mem=SIZE (and --carma-gpus=N, --carma-exclusive) instead of GPUs by --gres or --gpus")
end

-- Returns slurm.SUCCESS, or slurm.ERROR with a sentence for the user.
function carma_job_submit(job_desc, part_list)
  local options = options_of(job_desc)
  if wants_gpus(job_desc) and (options or is_shared(partitions_of(job_desc, part_list))) then return refuse_gpus() end
  if not options then return slurm.SUCCESS end
  local nodes = job_desc.min_nodes
  if nodes and nodes ~= slurm.NO_VAL and nodes > 1 and not options.exclusive then
    return refuse("CARMA: a multi-node job cannot share GPUs: use --carma-exclusive, or --nodes=1")
  end
  if options.mem and not carma_gib(options.mem) then return refuse("CARMA: --carma-mem: expected GPU memory such as 12G or 800M") end
  if options.mem and fits_no_gpu(options.mem) then
    return refuse(string.format("CARMA: --carma-mem=%s does not fit on any GPU; the largest has %dG", options.mem,
      math.floor(carma_largest_gpu_gib)))
  end
  -- A user may count more, as for a job that grows, but never less than the job's lease takes.
  local others, counted = split_count(job_desc.tres_per_node)
  table.insert(others, carma_gres .. string.format("%d", math.max(counted or 0, carma_count(options))))
  job_desc.tres_per_node = table.concat(others, ",")
  return slurm.SUCCESS
end

-- With `scontrol update`, a job's owner can neither count less than before nor get Slurm's GPUs that a submission would be refused.
function carma_job_modify(job_desc, job_rec, modify_uid)
  local _, after = split_count(job_desc.tres_per_node)
  local _, before = split_count(job_rec.tres_per_node)
  local had = wants_gpus(job_rec)
  local wants = wants_gpus(job_desc) or (had and job_desc.partition)
  if modify_uid ~= 0 and wants and ((before and not had) or is_shared(job_desc.partition or job_rec.partition)) then return refuse_gpus() end
  if modify_uid ~= 0 and before and type(job_desc.tres_per_node) == "string" and (after or 0) < before then
    return refuse("CARMA: this job counts " .. before .. " GiB of GPU memory (gres/carma): only an administrator may lower that")
  end
  return slurm.SUCCESS
end

if not slurm_job_submit then
  function slurm_job_submit(job_desc, part_list, submit_uid)
    return carma_job_submit(job_desc, part_list)
  end
  function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return carma_job_modify(job_desc, job_rec, modify_uid)
  end
end
